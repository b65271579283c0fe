"""Attacks on a reward by kind: attempts that deserve no full reward, each tried only where it applies.

An attacker is a small function that makes an attempt from what is known of a task (`Known`) and of the train golds
(`Pool`). A kind says why its attempt deserves no full reward; what an honest reward may pay in full, such as gold with
white space around it, is no attack.

- `attack`: what a kind of attack is (`Attack`), and what it is made from (`Known`, `Pool`)
- `texts`: reads and makes the texts of golds: their form, JSON, programs, and other answers in the same form
- `silence`: nothing, texts that are no answer, and answers that are the same for every task
- `wrong`: right answers to other tasks, pieces of gold, numbers and days that are somewhat off, sentences turned round
- `comparing`: what is evaluated, filled in or matched; several answers at once, denied gold, citations of everything
- `objects`: the right form without content, values that break comparisons, JSON with fields that are not right
- `padding`: length, repetition, keywords, hollow reasoning, and texts aimed at a judge model
- `calling`: malformed, repeated and excess tool calls, and answers without them
- `programs`: programs that end, patch or fool their tests
- `catalog`: all kinds in order, and the attempts at a task (`ATTACKS`, `attempts_at`)
"""
