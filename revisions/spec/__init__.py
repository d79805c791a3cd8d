"""Specs of tasks, triggers and calendars: parsed once into typed, frozen objects."""
