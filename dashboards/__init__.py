"""What people watch: Grafana's dashboards and Prometheus' alert rules, made by `python -m dashboards` (O-03)."""
