"""When a schedule fires: pure functions of a schedule and instants."""
