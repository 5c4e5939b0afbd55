"""draft"""
HYBRID = "refimpl hybrid"
PEER = "torch DDP (gloo)"
