// SPDX-License-Identifier: GPL-2.0
/*
 * Devices with a clock that devfreq governs: a Jetson's GPU, and the bandwidth manager of its memory. Limits, tables and
 * governors are Linux' own devfreq and OPP code; only the clock itself is a number.
 *
 * A node with "powertrain,root-name" gets a device directly below /sys/devices, where L4T before R36 has its GPU.
 */
#include <linux/devfreq.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/pm_opp.h>
#include <linux/pm_runtime.h>

struct scaled {
	struct device *dev;
	struct devfreq *devfreq;
	struct devfreq_dev_profile profile;
	unsigned long rate_hz;
	bool has_load;
	unsigned int load;
	unsigned int railgate;
};

static int scaled_target(struct device *dev, unsigned long *rate_hz, u32 flags)
{
	struct scaled *scaled = dev_get_drvdata(dev);
	struct dev_pm_opp *opp = devfreq_recommended_opp(dev, rate_hz, flags);

	if (IS_ERR(opp))
		return PTR_ERR(opp);
	dev_pm_opp_put(opp);
	scaled->rate_hz = *rate_hz;
	return 0;
}

static int scaled_get_cur_freq(struct device *dev, unsigned long *rate_hz)
{
	*rate_hz = ((struct scaled *)dev_get_drvdata(dev))->rate_hz;
	return 0;
}

static int scaled_get_dev_status(struct device *dev, struct devfreq_dev_status *status)
{
	struct scaled *scaled = dev_get_drvdata(dev);

	status->current_frequency = scaled->rate_hz;
	status->total_time = 1000;
	status->busy_time = scaled->load;
	return 0;
}

static ssize_t load_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%u\n", ((struct scaled *)dev_get_drvdata(dev))->load);
}

static ssize_t load_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t size)
{
	unsigned int load;
	int ret = kstrtouint(text, 0, &load);

	if (ret || load > 1000)
		return ret ?: -EINVAL;
	((struct scaled *)dev_get_drvdata(dev))->load = load;
	return size;
}
static DEVICE_ATTR_RW(load);

static ssize_t railgate_enable_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%u\n", ((struct scaled *)dev_get_drvdata(dev))->railgate);
}

static ssize_t railgate_enable_store(struct device *dev, struct device_attribute *attribute, const char *text,
				     size_t size)
{
	bool on;
	int ret = kstrtobool(text, &on);

	if (ret)
		return ret;
	((struct scaled *)dev_get_drvdata(dev))->railgate = on;
	return size;
}
static DEVICE_ATTR_RW(railgate_enable);

static ssize_t tpc_pg_mask_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "0\n");
}
static DEVICE_ATTR_RO(tpc_pg_mask);

static struct attribute *gpu_attributes[] = {
	&dev_attr_load.attr, &dev_attr_railgate_enable.attr, &dev_attr_tpc_pg_mask.attr, NULL
};
static const struct attribute_group gpu_group = { .attrs = gpu_attributes };

static void scaled_release(struct device *dev)
{
	kfree(dev);
}

static struct device *scaled_root_device(struct device_node *node, const char *name)
{
	struct device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int ret;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->release = scaled_release;
	dev->of_node = of_node_get(node);
	dev_set_name(dev, "%s", name);
	ret = device_register(dev);
	if (ret) {
		put_device(dev);
		return ERR_PTR(ret);
	}
	return dev;
}

static int scaled_start(struct scaled *scaled)
{
	struct device *dev = scaled->dev;
	const char *governor = "performance";
	int ret = dev_pm_opp_of_add_table(dev);

	if (ret)
		return ret;
	of_property_read_string(dev->of_node, "powertrain,governor", &governor);
	scaled->profile.target = scaled_target;
	scaled->profile.get_cur_freq = scaled_get_cur_freq;
	scaled->profile.get_dev_status = scaled_get_dev_status;
	scaled->profile.polling_ms = 25;
	scaled->profile.initial_freq = scaled->rate_hz;
	scaled->devfreq = devfreq_add_device(dev, &scaled->profile, governor, NULL);
	return PTR_ERR_OR_ZERO(scaled->devfreq);
}

static int scaled_probe(struct platform_device *pdev)
{
	struct scaled *scaled = devm_kzalloc(&pdev->dev, sizeof(*scaled), GFP_KERNEL);
	const char *root_name;
	u64 rate_hz = 0;
	int ret;

	if (!scaled)
		return -ENOMEM;
	scaled->dev = &pdev->dev;
	scaled->railgate = 1;
	of_property_read_u64(pdev->dev.of_node, "rate-hz", &rate_hz);
	scaled->rate_hz = rate_hz;
	if (!of_property_read_string(pdev->dev.of_node, "powertrain,root-name", &root_name)) {
		scaled->dev = scaled_root_device(pdev->dev.of_node, root_name);
		if (IS_ERR(scaled->dev))
			return PTR_ERR(scaled->dev);
	}
	dev_set_drvdata(scaled->dev, scaled);
	pm_runtime_enable(scaled->dev);
	if (of_property_read_bool(pdev->dev.of_node, "powertrain,gpu")) {
		ret = sysfs_create_group(&scaled->dev->kobj, &gpu_group);
		if (ret)
			return ret;
	}
	return scaled_start(scaled);
}

static const struct of_device_id scaled_ids[] = { { .compatible = "powertrain,devfreq" }, {} };
MODULE_DEVICE_TABLE(of, scaled_ids);

static struct platform_driver scaled_driver = {
	.probe = scaled_probe,
	/* There is no remove: the machine is switched off instead. */
	.driver = { .name = "powertrain-devfreq", .of_match_table = scaled_ids, .suppress_bind_attrs = true },
};
builtin_platform_driver(scaled_driver);
MODULE_DESCRIPTION("Devices whose clock devfreq governs");
MODULE_LICENSE("GPL");
