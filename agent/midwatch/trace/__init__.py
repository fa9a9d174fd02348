"""Read a Kineto trace and summarise it."""
