"""The governor: profiles a running training, chooses its power mode and guards the budget."""
