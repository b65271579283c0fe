"""What a person sees: `terminal` makes text safe to show, `pace` estimates, `bars` shows the open stages of a run."""
