"""`make stack`: the services of docker-compose.yml as plain processes of this machine, for where there is no docker.

There is one description, the compose file: commands, settings, order, health checks and times to end are read from it.
"""
