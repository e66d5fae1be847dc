"""From the settings to objects, a file per thing that is set up. Beside gateway.build, only these name concrete classes."""
