"""How gradients are added up: the order, sums of row gradients, and what frameworks decide differently in a sum."""
