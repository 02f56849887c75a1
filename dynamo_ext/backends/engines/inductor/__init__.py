"""The engine `inductor`."""
