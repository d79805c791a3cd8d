"""Use cases on specs: deploy, activate, rename, tasks, calendars, holds."""
