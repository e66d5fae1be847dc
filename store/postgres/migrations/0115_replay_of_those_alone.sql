-- A plan no longer tells what a variation beside an example would gain: an example is expanded by its own gain.

ALTER TABLE replay_steps DROP COLUMN companion_gain;
