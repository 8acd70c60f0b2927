"""The index: a projection of the committed set that nominates candidates. One port, two backends."""
