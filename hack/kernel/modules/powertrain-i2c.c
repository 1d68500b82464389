// SPDX-License-Identifier: GPL-2.0
/*
 * An I2C bus of the device tree whose chips answer from memory. Its attribute `registers` takes lines of
 * "ADDRESS REGISTER WORD" in hexadecimal: what a chip answers from then on.
 */
#include <linux/i2c.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>

#define ADDRESSES 128
#define REGISTERS 256

struct memory_bus {
	struct i2c_adapter adapter;
	bool present[ADDRESSES];
	u16 words[ADDRESSES][REGISTERS];
};

static s32 memory_xfer(struct i2c_adapter *adapter, u16 address, unsigned short flags, char direction, u8 command,
		       int size, union i2c_smbus_data *data)
{
	struct memory_bus *bus = i2c_get_adapdata(adapter);

	if (address >= ADDRESSES || !bus->present[address])
		return -ENXIO;
	switch (size) {
	case I2C_SMBUS_QUICK:
		return 0;
	case I2C_SMBUS_WORD_DATA:
		if (direction == I2C_SMBUS_WRITE)
			WRITE_ONCE(bus->words[address][command], data->word);
		else
			data->word = READ_ONCE(bus->words[address][command]);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static u32 memory_functionality(struct i2c_adapter *adapter)
{
	return I2C_FUNC_SMBUS_QUICK | I2C_FUNC_SMBUS_WORD_DATA;
}

static const struct i2c_algorithm memory_algorithm = {
	.smbus_xfer = memory_xfer,
	.functionality = memory_functionality,
};

static ssize_t registers_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t size)
{
	struct memory_bus *bus = dev_get_drvdata(dev);
	unsigned int address, number, word;
	int used;
	const char *at = text;

	while (sscanf(at, "%x %x %x%n", &address, &number, &word, &used) == 3) {
		if (address >= ADDRESSES || number >= REGISTERS || word > U16_MAX)
			return -EINVAL;
		/* The chips send the high byte first. */
		WRITE_ONCE(bus->words[address][number], swab16(word));
		at += used;
	}
	return at == text ? -EINVAL : size;
}
static DEVICE_ATTR_WO(registers);

static struct attribute *memory_attrs[] = { &dev_attr_registers.attr, NULL };
ATTRIBUTE_GROUPS(memory);

static int memory_probe(struct platform_device *pdev)
{
	struct memory_bus *bus = devm_kzalloc(&pdev->dev, sizeof(*bus), GFP_KERNEL);
	struct device_node *chip;
	u32 address;

	if (!bus)
		return -ENOMEM;
	for_each_child_of_node(pdev->dev.of_node, chip)
		if (!of_property_read_u32(chip, "reg", &address) && address < ADDRESSES)
			bus->present[address] = true;
	bus->adapter.owner = THIS_MODULE;
	bus->adapter.algo = &memory_algorithm;
	bus->adapter.dev.parent = &pdev->dev;
	bus->adapter.dev.of_node = pdev->dev.of_node;
	strscpy(bus->adapter.name, dev_name(&pdev->dev), sizeof(bus->adapter.name));
	i2c_set_adapdata(&bus->adapter, bus);
	platform_set_drvdata(pdev, bus);
	return devm_i2c_add_adapter(&pdev->dev, &bus->adapter);
}

static const struct of_device_id memory_ids[] = { { .compatible = "powertrain,i2c" }, {} };
MODULE_DEVICE_TABLE(of, memory_ids);

static struct platform_driver memory_driver = {
	.probe = memory_probe,
	.driver = { .name = "powertrain-i2c", .of_match_table = memory_ids, .dev_groups = memory_groups },
};
module_platform_driver(memory_driver);
MODULE_DESCRIPTION("An I2C bus that answers from memory");
MODULE_LICENSE("GPL");
