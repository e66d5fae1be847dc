"""From the settings to objects, a file per thing that is set up. Beside understudy.build, only these name concrete ones."""
