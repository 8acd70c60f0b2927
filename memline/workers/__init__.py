"""What runs the stages: the Celery app and its loops, and the in-process engine of the embedded mode."""
