"""What partitions cost where engines take a part of a model."""
