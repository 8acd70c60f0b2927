"""The six stages, one module each: plain functions over a batch of jobs. `runner` runs any of them, for every engine alike."""
