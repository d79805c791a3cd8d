"""Source code of the tasks that the launcher tests run, shared by all kinds that can run Python."""

TASKS = """
import fcntl, json, os, pathlib, signal, subprocess, sys, time

def until(path):
    while not os.path.exists(path):
        time.sleep(0.002)

def echo(document):
    return {"seen": document, "environment": dict(os.environ), "cwd": os.getcwd()}

def nothing(document):
    print("no answer")

def fail(document):
    pathlib.Path(os.environ["TRIGGERCTL_OUTPUT"]).write_text('{"state": {"kept": 1}}')
    print("could not reach the moon", file=sys.stderr)
    sys.exit(3)

def sleep(document):
    pathlib.Path(document["input"]["ready"]).touch()
    signal.pause()

def stubborn(document):
    signal.signal(signal.SIGTERM, lambda *_: pathlib.Path(document["input"]["sigterm_received"]).touch())
    pathlib.Path(document["input"]["ready"]).touch()
    while True:
        signal.pause()

def print_bytes(document):
    sys.stdout.buffer.write(bytes(range(256)) * document["input"]["times"])
    sys.stdout.flush()
    sys.stderr.write("end\\n")

def wait(document):
    with open(document["input"]["runs"], "a") as file:
        file.write("run\\n")
    until(document["input"]["go"])
    return {"waited": True}

def grandchild(document):
    lock = os.open(document["input"]["lock"], os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"], pass_fds=[lock])
    pathlib.Path(document["input"]["ready"]).touch()
    if document["input"]["stay"]:
        signal.pause()

def write_output(document):
    pathlib.Path(os.environ["TRIGGERCTL_OUTPUT"]).write_text(document["input"]["text"])

if __name__ == "__main__":
    with open(os.environ["TRIGGERCTL_INPUT"]) if sys.argv[2:] else sys.stdin as file:
        answer = globals()[sys.argv[1]](json.load(file))
    if answer is not None:
        pathlib.Path(os.environ["TRIGGERCTL_OUTPUT"]).write_text(json.dumps(answer))
"""
