"""What `specctl doctor` looks at: facts of software, machine, models and settings; no output."""
