#: one thread
def work():
    show(model(x))
thread = threading.Thread(target=work)
thread.start()
thread.join()

#: threads one after the other
for number in range(3):
    thread = threading.Thread(target=lambda: show(model(x + number)))
    thread.start()
    thread.join()

#: four threads at once
results = [None] * 4
def work(index):
    for _ in range(5):
        results[index] = model(x + index)
threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
show(*results)

#: a pool of threads
with ThreadPoolExecutor(3) as pool:
    for result in pool.map(lambda number: model(x * number), range(6)):
        show(result)

#: an exception in a thread of a pool
def work(number):
    if number == 2:
        raise KeyError(number)
    return model(x)
with ThreadPoolExecutor(2) as pool:
    for future in [pool.submit(work, number) for number in range(4)]:
        print(type(future.exception()).__name__)

#: the hook of uncaught exceptions in threads
threading.excepthook = lambda given: print("hook", given.exc_type.__name__, given.exc_value)
class Bad(nn.Module):
    def forward(self, x):
        raise ValueError("bad")
thread = threading.Thread(target=lambda: Bad()(x))
thread.start()
thread.join()

#: locks held over a forward
lock = threading.Lock()
def work():
    with lock:
        show(model(x))
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(lock.locked())

#: a condition between two threads
condition, ready = threading.Condition(), []
def consumer():
    with condition:
        condition.wait_for(lambda: ready)
        show(ready[0])
thread = threading.Thread(target=consumer)
thread.start()
with condition:
    ready.append(model(x))
    condition.notify()
thread.join()

#: a queue between two threads
jobs, results = queue.Queue(), queue.Queue()
def worker():
    while (job := jobs.get()) is not None:
        results.put(model(job))
thread = threading.Thread(target=worker)
thread.start()
for number in range(4):
    jobs.put(x + number)
jobs.put(None)
thread.join()
while not results.empty():
    show(results.get())

#: backward on another thread
output = model(x).sum()
thread = threading.Thread(target=output.backward)
thread.start()
thread.join()
show(model[0].weight.grad)

#: thread-local data
local = threading.local()
def work(number):
    local.value = number
    time.sleep(0.01)
    model(x)
    found.append(local.value == number)
found = []
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(found)

#: a timer
timer = threading.Timer(0.01, lambda: show(model(x)))
timer.start()
timer.join()

#: a barrier inside forward
barrier = threading.Barrier(2)
class Waits(nn.Module):
    def forward(self, x):
        barrier.wait(10)
        return x * 2
waits, outputs = Waits(), []
threads = [threading.Thread(target=lambda: outputs.append(waits(x))) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
show(*outputs)

#: grad mode is a thread's own
torch.set_grad_enabled(False)
def work():
    print(torch.is_grad_enabled(), model(x).requires_grad)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(torch.is_grad_enabled())

#: a daemon thread that sleeps at the end
def work():
    model(x)
    time.sleep(100)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("end")

#: threading.settrace
calls = []
threading.settrace(lambda frame, event, arg: calls.append(frame.f_code.co_name) if frame.f_code.co_name == "mine" else None)
def mine():
    show(model(x))
thread = threading.Thread(target=mine)
thread.start()
thread.join()
print(calls)

#: a model that is trained by two threads with a lock
optimizer, lock = torch.optim.SGD(model.parameters(), 0.1), threading.Lock()
def work():
    for _ in range(3):
        with lock:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
show(model[0].weight)

#: the number of threads that the program sees
before = threading.active_count()
model(x)
print(threading.active_count() == before, [thread.name for thread in threading.enumerate()])
