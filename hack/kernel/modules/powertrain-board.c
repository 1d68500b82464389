// SPDX-License-Identifier: GPL-2.0
/*
 * What else of a Jetson the agent looks at: thermal sensors, throttle alerts, over-current counters, a PWM for the fan,
 * and the device that makes cpufreq-dt start (the kernel blocks it for NVIDIA's chips, which have drivers of their own).
 * Values are set through the attributes `temperature` ("SENSOR MILLICELSIUS", or "SENSOR off": reads then end in
 * EAGAIN, as those of a power-gated block do), `alert` ("NUMBER STATE") and `oc_event` ("NUMBER COUNT").
 */
#include <linux/hwmon.h>
#include <linux/hwmon-sysfs.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/pwm.h>
#include <linux/thermal.h>

#define SENSORS 16
#define ALERTS 3
#define COUNTERS 3

struct sensor {
	int millicelsius;
	bool off;
};

static struct sensor sensors[SENSORS];
static unsigned long alerts[ALERTS];
static unsigned int events[COUNTERS];
static const char *const alert_names[ALERTS] = { "cpu-throttle-alert", "gpu-throttle-alert", "soc0-throttle-alert" };
static struct platform_device *cpufreq;

static int sensor_get_temp(struct thermal_zone_device *zone, int *millicelsius)
{
	struct sensor *sensor = zone->devdata;

	if (READ_ONCE(sensor->off))
		return -EAGAIN;
	*millicelsius = READ_ONCE(sensor->millicelsius);
	return 0;
}

static const struct thermal_zone_device_ops sensor_ops = { .get_temp = sensor_get_temp };

static int alert_max(struct thermal_cooling_device *alert, unsigned long *state)
{
	*state = 1;
	return 0;
}

static int alert_get(struct thermal_cooling_device *alert, unsigned long *state)
{
	*state = READ_ONCE(*(unsigned long *)alert->devdata);
	return 0;
}

static int alert_set(struct thermal_cooling_device *alert, unsigned long state)
{
	return 0;
}

static const struct thermal_cooling_device_ops alert_ops = {
	.get_max_state = alert_max,
	.get_cur_state = alert_get,
	.set_cur_state = alert_set,
};

static ssize_t temperature_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t size)
{
	int number, millicelsius;

	if (sscanf(text, "%d %d", &number, &millicelsius) == 2 && number >= 0 && number < SENSORS) {
		WRITE_ONCE(sensors[number].millicelsius, millicelsius);
		WRITE_ONCE(sensors[number].off, false);
		return size;
	}
	if (sscanf(text, "%d off", &number) != 1 || number < 0 || number >= SENSORS)
		return -EINVAL;
	WRITE_ONCE(sensors[number].off, true);
	return size;
}
static DEVICE_ATTR_WO(temperature);

static ssize_t alert_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t size)
{
	unsigned int number, state;

	if (sscanf(text, "%u %u", &number, &state) != 2 || number >= ALERTS || state > 1)
		return -EINVAL;
	WRITE_ONCE(alerts[number], state);
	return size;
}
static DEVICE_ATTR_WO(alert);

static ssize_t oc_event_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t size)
{
	unsigned int number, count;

	if (sscanf(text, "%u %u", &number, &count) != 2 || number < 1 || number > COUNTERS)
		return -EINVAL;
	WRITE_ONCE(events[number - 1], count);
	return size;
}
static DEVICE_ATTR_WO(oc_event);

static struct attribute *board_attrs[] = {
	&dev_attr_temperature.attr, &dev_attr_alert.attr, &dev_attr_oc_event.attr, NULL
};
ATTRIBUTE_GROUPS(board);

static int board_probe(struct platform_device *pdev)
{
	int number;

	for (number = 0; number < SENSORS; number++) {
		sensors[number].millicelsius = 45000;
		if (IS_ERR(devm_thermal_of_zone_register(&pdev->dev, number, &sensors[number], &sensor_ops)))
			break;
	}
	for (number = 0; number < ALERTS; number++) {
		struct thermal_cooling_device *alert = devm_thermal_of_cooling_device_register(
			&pdev->dev, NULL, alert_names[number], &alerts[number], &alert_ops);

		if (IS_ERR(alert))
			return PTR_ERR(alert);
	}
	return 0;
}

static const struct of_device_id board_ids[] = { { .compatible = "powertrain,board" }, {} };

static struct platform_driver board_driver = {
	.probe = board_probe,
	.driver = { .name = "powertrain-board", .of_match_table = board_ids, .dev_groups = board_groups },
};

static ssize_t oc_event_cnt_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%u\n", READ_ONCE(events[to_sensor_dev_attr(attribute)->index]));
}

static ssize_t oc_throt_en_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "1\n");
}

static SENSOR_DEVICE_ATTR_RO(oc1_event_cnt, oc_event_cnt, 0);
static SENSOR_DEVICE_ATTR_RO(oc2_event_cnt, oc_event_cnt, 1);
static SENSOR_DEVICE_ATTR_RO(oc3_event_cnt, oc_event_cnt, 2);
static SENSOR_DEVICE_ATTR_RO(oc1_throt_en, oc_throt_en, 0);
static SENSOR_DEVICE_ATTR_RO(oc2_throt_en, oc_throt_en, 1);
static SENSOR_DEVICE_ATTR_RO(oc3_throt_en, oc_throt_en, 2);

static struct attribute *soctherm_attrs[] = {
	&sensor_dev_attr_oc1_event_cnt.dev_attr.attr, &sensor_dev_attr_oc2_event_cnt.dev_attr.attr,
	&sensor_dev_attr_oc3_event_cnt.dev_attr.attr, &sensor_dev_attr_oc1_throt_en.dev_attr.attr,
	&sensor_dev_attr_oc2_throt_en.dev_attr.attr,  &sensor_dev_attr_oc3_throt_en.dev_attr.attr, NULL
};
ATTRIBUTE_GROUPS(soctherm);

static int soctherm_probe(struct platform_device *pdev)
{
	return PTR_ERR_OR_ZERO(
		devm_hwmon_device_register_with_groups(&pdev->dev, "soctherm_oc", NULL, soctherm_groups));
}

static const struct of_device_id soctherm_ids[] = { { .compatible = "powertrain,soctherm-oc" }, {} };

static struct platform_driver soctherm_driver = {
	.probe = soctherm_probe,
	.driver = { .name = "powertrain-soctherm", .of_match_table = soctherm_ids },
};

static int fan_pwm_apply(struct pwm_chip *chip, struct pwm_device *pwm, const struct pwm_state *state)
{
	return 0;
}

static const struct pwm_ops fan_pwm_ops = { .apply = fan_pwm_apply, .owner = THIS_MODULE };

static int fan_pwm_probe(struct platform_device *pdev)
{
	struct pwm_chip *chip = devm_kzalloc(&pdev->dev, sizeof(*chip), GFP_KERNEL);

	if (!chip)
		return -ENOMEM;
	chip->dev = &pdev->dev;
	chip->ops = &fan_pwm_ops;
	chip->npwm = 1;
	chip->of_xlate = of_pwm_xlate_with_flags;
	chip->of_pwm_n_cells = 3;
	return devm_pwmchip_add(&pdev->dev, chip);
}

static const struct of_device_id fan_pwm_ids[] = { { .compatible = "powertrain,pwm" }, {} };

static struct platform_driver fan_pwm_driver = {
	.probe = fan_pwm_probe,
	.driver = { .name = "powertrain-pwm", .of_match_table = fan_pwm_ids },
};

static struct platform_driver *const drivers[] = { &board_driver, &soctherm_driver, &fan_pwm_driver };

static int __init board_init(void)
{
	int ret = platform_register_drivers(drivers, ARRAY_SIZE(drivers));

	if (ret)
		return ret;
	cpufreq = platform_device_register_simple("cpufreq-dt", -1, NULL, 0);
	/* For chips that the kernel does not block (tegra194) it has made the device itself. */
	if (cpufreq == ERR_PTR(-EEXIST))
		cpufreq = NULL;
	if (IS_ERR(cpufreq)) {
		platform_unregister_drivers(drivers, ARRAY_SIZE(drivers));
		return PTR_ERR(cpufreq);
	}
	return 0;
}

static void __exit board_exit(void)
{
	platform_device_unregister(cpufreq);
	platform_unregister_drivers(drivers, ARRAY_SIZE(drivers));
}
module_init(board_init);
module_exit(board_exit);
MODULE_DESCRIPTION("Sensors, counters and the fan's PWM of a Jetson");
MODULE_LICENSE("GPL");
