"""What tests share: studies and people, programs that are killed, browsers, and independent oracles."""
