"""What is recorded while frames are captured and graphs run."""
