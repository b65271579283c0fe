"""Attacks on a reward by kind: attempts that deserve no full reward, each tried only where it applies.

An attacker is a small function that makes an attempt from what is known of a task (`Known`) and of the train golds
(`Pool`). A kind says why its attempt deserves no full reward; what an honest reward may pay in full, such as gold with
white space around it, is no attack.

- `known`: what attackers know of a task (`Known`), `pool`: of the golds of all train tasks (`Pool`), and `scripts`: how
  golds and attempts are said
- `kinds`: what a kind of attack is (`Attack`)
- `texts`: looks at golds: the form that they share, JSON, programs
- `made`: makes other answers in the form of an answer, and says which are near
- `silence`: nothing, and texts that are no answer
- `others`: right answers to other tasks, and pieces of gold
- `near`: numbers and days that are somewhat off, another sign, another unit
- `sentences`: the words of a gold sentence with another meaning
- `comparing`: what is evaluated, filled in or matched instead of compared
- `constants`: the same for every task, of what is most frequent in the golds
- `hedges`: several answers at once, and gold in a text that denies it
- `forms`: the right form without content, and values that break comparisons
- `objects`: JSON with empty, listed, doubled and mistyped fields
- `fields`: JSON with one wrong field, whose value stands in another
- `padding`: length, repetition, keywords, hollow reasoning
- `judging`: texts aimed at a judge model
- `citing`: citations of everything
- `calling`: malformed, repeated and excess tool calls, and answers without them
- `programs`: programs that end, patch or fool their tests
- `catalog`: all kinds in order, and the attempts at a task (`ATTACKS`, `attempts_at`)
"""
