"""What training steps cost that are for autograd what they are in eager."""
