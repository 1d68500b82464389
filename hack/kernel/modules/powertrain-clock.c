// SPDX-License-Identifier: GPL-2.0
/* A clock that takes any rate it is given, so that cpufreq-dt has something to set. */
#include <linux/clk-provider.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>

struct settable_clock {
	struct clk_hw hw;
	unsigned long rate_hz;
};

static struct settable_clock *to_settable(struct clk_hw *hw)
{
	return container_of(hw, struct settable_clock, hw);
}

static unsigned long settable_recalc_rate(struct clk_hw *hw, unsigned long parent_hz)
{
	return to_settable(hw)->rate_hz;
}

static int settable_determine_rate(struct clk_hw *hw, struct clk_rate_request *request)
{
	return 0;
}

static int settable_set_rate(struct clk_hw *hw, unsigned long rate_hz, unsigned long parent_hz)
{
	to_settable(hw)->rate_hz = rate_hz;
	return 0;
}

static const struct clk_ops settable_ops = {
	.recalc_rate = settable_recalc_rate,
	.determine_rate = settable_determine_rate,
	.set_rate = settable_set_rate,
};

static int settable_probe(struct platform_device *pdev)
{
	struct clk_init_data init = { .name = dev_name(&pdev->dev), .ops = &settable_ops, .flags = CLK_GET_RATE_NOCACHE };
	struct settable_clock *clock = devm_kzalloc(&pdev->dev, sizeof(*clock), GFP_KERNEL);
	u64 rate_hz = 0;
	int ret;

	if (!clock)
		return -ENOMEM;
	of_property_read_u64(pdev->dev.of_node, "rate-hz", &rate_hz);
	clock->rate_hz = rate_hz;
	clock->hw.init = &init;
	ret = devm_clk_hw_register(&pdev->dev, &clock->hw);
	if (ret)
		return ret;
	return devm_of_clk_add_hw_provider(&pdev->dev, of_clk_hw_simple_get, &clock->hw);
}

static const struct of_device_id settable_ids[] = { { .compatible = "powertrain,clock" }, {} };
MODULE_DEVICE_TABLE(of, settable_ids);

static struct platform_driver settable_driver = {
	.probe = settable_probe,
	.driver = { .name = "powertrain-clock", .of_match_table = settable_ids },
};
module_platform_driver(settable_driver);
MODULE_DESCRIPTION("A clock that takes any rate");
MODULE_LICENSE("GPL");
