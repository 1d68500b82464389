"""What a Jetson offers: its knobs, tables and sensors, discovered from its files."""
