#: a coroutine
async def main():
    return model(x)
show(asyncio.run(main()))

#: tasks that take turns
async def task(number):
    for _ in range(3):
        show(model(x + number))
        await asyncio.sleep(0)
async def main():
    await asyncio.gather(*[task(number) for number in range(3)])
asyncio.run(main())

#: a task that is cancelled
async def work():
    try:
        while True:
            model(x)
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        print("cancelled")
        raise
async def main():
    task = asyncio.create_task(work())
    await asyncio.sleep(0.02)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("over")
asyncio.run(main())

#: a timeout of asyncio
async def work():
    while True:
        model(x)
        await asyncio.sleep(0.001)
async def main():
    try:
        await asyncio.wait_for(work(), 0.03)
    except asyncio.TimeoutError:
        print("timeout")
asyncio.run(main())

#: a forward in a thread of asyncio's
async def main():
    show(*await asyncio.gather(*[asyncio.to_thread(model, x + number) for number in range(3)]))
asyncio.run(main())

#: an exception out of a task
class Bad(nn.Module):
    def forward(self, x):
        raise RuntimeError("bad")
async def main():
    results = await asyncio.gather(asyncio.to_thread(Bad(), x), asyncio.sleep(0, 1), return_exceptions=True)
    print([repr(result) for result in results])
asyncio.run(main())

#: an asynchronous generator
async def outputs():
    for number in range(3):
        yield model(x + number)
async def main():
    async for output in outputs():
        show(output)
asyncio.run(main())

#: an asynchronous context manager
@contextlib.asynccontextmanager
async def manager():
    yield model(x)
    show(model(x * 2))
async def main():
    async with manager() as output:
        show(output)
asyncio.run(main())

#: context variables
variable = contextvars.ContextVar("variable", default=0)
async def task(number):
    variable.set(number)
    await asyncio.sleep(0)
    model(x)
    print(variable.get())
async def main():
    await asyncio.gather(*[task(number) for number in range(3)])
    print(variable.get())
asyncio.run(main())

#: a context that is run
variable = contextvars.ContextVar("variable")
context = contextvars.copy_context()
context.run(lambda: (variable.set(5), model(x)))
print(context[variable], variable.get(None), len(context) == 1)

#: a semaphore
async def task(semaphore, number):
    async with semaphore:
        show(model(x * number))
async def main():
    semaphore = asyncio.Semaphore(1)
    await asyncio.gather(*[task(semaphore, number) for number in range(3)])
asyncio.run(main())

#: an event loop of the program's own
loop = asyncio.new_event_loop()
loop.call_soon(lambda: show(model(x)))
loop.call_later(0.01, loop.stop)
loop.run_forever()
loop.close()
print(loop.is_closed())

#: a signal handler of the loop
async def main():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, done.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    model(x)
    await asyncio.wait_for(done.wait(), 5)
    print("handled")
asyncio.run(main())

#: grad mode over an await
async def task(enabled):
    with torch.set_grad_enabled(enabled):
        output = model(x)
        print(enabled, output.requires_grad)
async def main():
    await task(True)
    await task(False)
asyncio.run(main())
