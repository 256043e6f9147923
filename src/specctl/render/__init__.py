"""Values and events to terminals, lines and JSON; knows no model."""
