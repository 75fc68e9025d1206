#!/usr/bin/env python3
"""placeholder"""
import sys, time, os
import play, plan
seed=int(sys.argv[2]); count=int(sys.argv[3])
for s in range(seed, seed+int(sys.argv[4]) if len(sys.argv)>4 else seed+1):
    t=time.time()
    p=play.Play(plan.script(s,count), sys.argv[1], f"truth-{os.getpid()}-{s}")
    try:
        f=p.run()
    except BaseException: raise
    print(s, f"{time.time()-t:.1f}s", f"steps {sum(x for x,_ in p.slow):.1f}s", p.counts, [(x.kind,x.step) for x in f], flush=True)
    for x in sorted(p.slow)[-6:]: print("   ", x)
    if os.environ.get("V"):
        for x in f: print(x.text); print("-"*80)
os._exit(0)
