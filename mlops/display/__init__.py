"""What a person sees: `terminal` cleans text, `pace` estimates, `bars` show the stages of a run that are going on."""
