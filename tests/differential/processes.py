#: a fork after a forward
model(x)
sys.stdout.flush()
child = os.fork()
if child == 0:
    show(model(x))
    sys.stdout.flush()
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#: a fork before any forward
sys.stdout.flush()
child = os.fork()
if child == 0:
    show(model(x))
    sys.stdout.flush()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
show(model(x))

#: a fork inside forward
class Forks(nn.Module):
    def forward(self, x):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return x
show(nn.Sequential(Forks(), model)(x))

#: a child that goes on to the end
sys.stdout.flush()
if (child := os.fork()) == 0:
    show(model(x))
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#: a fork of a fork
def fork_and_wait(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
model(x)
fork_and_wait(lambda: (model(x), fork_and_wait(lambda: show(model(x)))))

#: a fork in a thread
def work():
    model(x)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os._exit(6)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread = threading.Thread(target=work)
thread.start()
thread.join()

#: functions around a fork
os.register_at_fork(before=lambda: print("before"), after_in_parent=lambda: print("parent"))
model(x)
sys.stdout.flush()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)

#: a child that is killed
model(x)
child = os.fork()
if child == 0:
    while True:
        model(x)
time.sleep(0.1)
os.kill(child, signal.SIGKILL)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#: a pipe between parent and child
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, model(x).detach().numpy().tobytes())
    os._exit(0)
os.close(write)
print(os.read(read, 1000).hex())
os.waitpid(child, 0)

#: another program
import subprocess
model(x)
print(subprocess.run(["echo", "hello"], capture_output=True, text=True).stdout)
print(subprocess.run(["sh", "-c", "exit 9"]).returncode)

#: exec
model(x)
sys.stdout.flush()
os.execvp("sh", ["sh", "-c", "echo executed; exit 11"])

#: sys.exit with a number
model(x)
sys.exit(12)

#: sys.exit with a text
model(x)
sys.exit("a text")

#: os._exit
model(x)
print("before")
sys.stdout.flush()
os._exit(13)

#: an uncaught exception
model(x)
raise ValueError("uncaught")

#: an uncaught exception of a class of its own
class Own(Exception):
    def __str__(self):
        return "own text"
model(x)
raise Own

#: a hook of uncaught exceptions
sys.excepthook = lambda kind, error, trace: print("hook", kind.__name__, error)
model(x)
raise LookupError("hooked")

#: functions at the end
import atexit
atexit.register(lambda: print("first registered"))
atexit.register(lambda: show(model(x)))
model(x)

#: an exception at the end
import atexit
def fails():
    raise ValueError("at the end")
atexit.register(fails)
atexit.register(lambda: print("still"))
model(x)

#: the environment
before = dict(os.environ)
model(x)
print(dict(os.environ) == before)

#: the working directory
os.mkdir("there")
os.chdir("there")
model(x)
print(os.path.basename(os.getcwd()), os.listdir("."))

#: standard output is closed
model(x)
sys.stdout.close()
model(x)

#: standard error is closed
sys.stderr.close()
show(model(x))

#: descriptors of the program
descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
model(x)
print([os.fstat(number).st_rdev for number in descriptors])

#: resource limits
import resource
before = [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS)]
model(x)
print(before == [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS)])

#: processes of multiprocessing by fork
import multiprocessing
def work(number):
    return model(x * number).sum().item()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)))

#: a data loader with workers
data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1).repeat(1, 4))
for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2):
    show(model(batch))

#: becoming a daemon
model(x)
read, write = os.pipe()
sys.stdout.flush()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, model(x).detach().numpy().tobytes())
    os._exit(0)
os.wait()
print(os.read(read, 1000).hex())

#: the random numbers of Python
random.seed(0)
model(x)
print(random.random(), random.getstate()[1][0])
