#: a handler that counts
count = 0
def handler(number, frame):
    global count
    count += 1
signal.signal(signal.SIGUSR1, handler)
for _ in range(5):
    os.kill(os.getpid(), signal.SIGUSR1)
    model(x)
print(count)

#: a handler that raises
class TimeUp(Exception):
    pass
def handler(number, frame):
    raise TimeUp("time is up")
signal.signal(signal.SIGALRM, handler)
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    try:
        while True:
            model(x)
    except TimeUp as error:
        print(error)

#: a handler that raises TimeoutError in a function with a finally
def handler(number, frame):
    raise TimeoutError
signal.signal(signal.SIGALRM, handler)
def work():
    try:
        while True:
            model(x)
    finally:
        print("finally")
for _ in range(10):
    signal.setitimer(signal.ITIMER_REAL, 0.004)
    try:
        work()
    except TimeoutError:
        print("timeout")

#: an alarm that is cancelled
signal.signal(signal.SIGALRM, lambda *given: print("never"))
signal.setitimer(signal.ITIMER_REAL, 30)
show(model(x))
print(signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0)

#: ignored signals
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGUSR2)
show(model(x))

#: KeyboardInterrupt
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        model(x)
except KeyboardInterrupt:
    print("interrupted")
show(model(x))

#: killed by a signal
show(model(x))
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)

#: a handler for SIGTERM that exits
signal.signal(signal.SIGTERM, lambda *given: sys.exit(7))
model(x)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)

#: a handler that runs the model
signal.signal(signal.SIGUSR1, lambda *given: show(model(x * 2)))
os.kill(os.getpid(), signal.SIGUSR1)
show(model(x))

#: a handler that is replaced inside itself
def first(number, frame):
    signal.signal(signal.SIGUSR1, lambda *given: print("second"))
    print("first")
signal.signal(signal.SIGUSR1, first)
for _ in range(3):
    os.kill(os.getpid(), signal.SIGUSR1)
    model(x)

#: sigwait
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
model(x)
print(signal.sigwait([signal.SIGUSR1]).name)

#: the mask of signals
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
model(x)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == before)

#: a wakeup descriptor
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
signal.signal(signal.SIGUSR1, lambda *given: None)
os.kill(os.getpid(), signal.SIGUSR1)
model(x)
print(os.read(read, 10) == bytes([signal.SIGUSR1]), signal.set_wakeup_fd(-1) == write)

#: handlers are as they were
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
model(x)
print({number: signal.getsignal(number) for number in signal.valid_signals()} == handlers)

#: an exception in a handler inside forward
def handler(number, frame):
    raise LookupError("in forward")
signal.signal(signal.SIGUSR1, handler)
class Sends(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(1000):
            pass
        return x
try:
    Sends()(x)
except LookupError as error:
    print(error)
