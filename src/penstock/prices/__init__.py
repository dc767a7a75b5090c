"""What hardware, power and time cost: the one home of prices, for the lab's runs and for applications."""
