"""How gradients are added up: the order, sums of row gradients, and each decision of a sum."""
