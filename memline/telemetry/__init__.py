"""What a process tells others about itself: logs, metrics, traces, errors. Imports only contracts; heavy packages where first used."""
