"""Private interfaces of Dynamo that capture needs."""
