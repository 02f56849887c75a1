"""Private interfaces of torch that capture and backends share."""
