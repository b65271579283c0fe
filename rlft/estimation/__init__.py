"""What a run will take in time, memory and tokens, said before it begins, as ranges.

- `span`: a range of a quantity, and how ranges add up
- `work`: how much of each kind of work a config asks for
- `rates`: what a unit of each kind takes, as past runs or a probe have measured it
- `records`, `samples`: the rates of past runs; the rates of a probe
- `counts`: how many tasks there are to be evaluated
- `stages`, `estimate`: work times rates, stage by stage; all of it with tokens, cost and budget
- `scheduled`: what the runs of a schedule take by week and by month
- `endings`: what an early stop or a budget changes
- `trainers`: what several trainers change in time and memory
- `room`: whether memory is enough, and which settings to lower
- `busy`: how busy the machine is with other work
- `peak`: the most memory that this process has held
- `probe`, `probing`: a few attempts and one update, in a process of their own; that process, held to its time
- `leash`: lets that process end with the one that asked for it
"""
