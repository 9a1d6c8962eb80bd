// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// tardy's own test of DMA controllers. It is not the kernel's dmatest, which copies one buffer at a
// time: a thread of this one hands several over as a chain. It takes a descriptor for each of its
// buffers, submits all of them, issues them once, and waits until the last one was copied. That is
// one pass, whose beginning and end are kept. What the threads came to is in /proc/tardy_sgtest:
// a line for each of them, and then a line for each pass.
// Built out of the kernel's tree, for guests.
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#define NAME "tardy_sgtest"
#define MOST_CHANNELS 64
#define MOST_THREADS 1024
#define MOST_BUFFERS (1 << 20)
// Of all threads together.
#define MOST_PASSES (1 << 20)

static char *channels = "";
module_param(channels, charp, 0644);
MODULE_PARM_DESC(channels, "names of the channels, with commas between them");

static unsigned int threads = 1;
module_param(threads, uint, 0644);
MODULE_PARM_DESC(threads, "threads of each channel");

static unsigned int iterations = 1;
module_param(iterations, uint, 0644);
MODULE_PARM_DESC(iterations, "passes of each thread");

static unsigned int buffers = 2;
module_param(buffers, uint, 0644);
MODULE_PARM_DESC(buffers, "buffers of a thread: descriptors of a chain");

static unsigned long bytes = 4096;
module_param(bytes, ulong, 0644);
MODULE_PARM_DESC(bytes, "size of a buffer");

static unsigned int timeout_ms = 3000;
module_param(timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "a chain that was not copied within this time has failed");

struct line {
	struct dma_chan *chan;
	// A chain is submitted as a whole: those of the channel's other threads come before it or
	// after it, and what is issued is whole.
	struct mutex lock;
};

struct buffer {
	u8 *from, *to;
	dma_addr_t from_dma, to_dma;
	bool is_mapped;
};

struct pass {
	// CLOCK_TAI.
	u64 begin_ns, end_ns;
};

struct copier {
	struct task_struct *task;
	struct line *line;
	// Of all threads, and of the channel's.
	unsigned int index, number;
	char channel[32];
	struct buffer *buffers;
	struct completion copied;
	unsigned int done, failures;
	u64 took_ns;
};

// What runs, or ran last; its figures stay until the next begins. The parameters are those of its
// beginning.
static struct {
	struct line lines[MOST_CHANNELS];
	unsigned int lines_count;
	struct copier *copiers;
	unsigned int count;
	// Those of one number are next to each other.
	struct pass *passes;
	unsigned int threads, iterations, buffers, timeout_ms;
	unsigned long bytes;
	bool is_leaving;
} test;
static DEFINE_MUTEX(lock);
static atomic_t running = ATOMIC_INIT(0);

static void was_copied(void *param)
{
	complete(param);
}

// One chain. Descriptors are submitted as they are taken: a driver may hold a lock between the two.
static int chain(struct copier *copier)
{
	struct dma_chan *chan = copier->line->chan;
	dma_cookie_t cookie = -EINVAL;
	unsigned int i;
	int error = 0;

	reinit_completion(&copier->copied);
	mutex_lock(&copier->line->lock);
	for (i = 0; i < test.buffers; i++) {
		struct buffer *buffer = &copier->buffers[i];
		bool is_last = i + 1 == test.buffers;
		unsigned long flags = DMA_CTRL_ACK | (is_last ? DMA_PREP_INTERRUPT : 0);
		struct dma_async_tx_descriptor *tx;

		tx = dmaengine_prep_dma_memcpy(chan, buffer->to_dma, buffer->from_dma, test.bytes, flags);
		if (!tx) {
			error = -ENOMEM;
			break;
		}
		if (is_last) {
			tx->callback = was_copied;
			tx->callback_param = &copier->copied;
		}
		cookie = dmaengine_submit(tx);
		error = dma_submit_error(cookie);
		if (error)
			break;
	}
	dma_async_issue_pending(chan);
	mutex_unlock(&copier->line->lock);
	if (error)
		return error;
	if (!wait_for_completion_timeout(&copier->copied, msecs_to_jiffies(test.timeout_ms)))
		return -ETIMEDOUT;
	return dma_async_is_tx_complete(chan, cookie, NULL, NULL) == DMA_COMPLETE ? 0 : -EIO;
}

// No two buffers of a thread that are next to each other have the same bytes, and none is zero.
static u8 pattern(const struct copier *copier, unsigned int buffer, unsigned long at)
{
	return (copier->index * 29 + buffer * 6 + at * 2) | 1;
}

// How many buffers do not have what was to be copied to them.
static unsigned int differing(struct copier *copier)
{
	struct device *device = copier->line->chan->device->dev;
	unsigned int i, found = 0;

	for (i = 0; i < test.buffers; i++) {
		struct buffer *buffer = &copier->buffers[i];

		dma_sync_single_for_cpu(device, buffer->to_dma, test.bytes, DMA_FROM_DEVICE);
		found += memcmp(buffer->to, buffer->from, test.bytes) != 0;
		cond_resched();
	}
	return found;
}

#define SUMMARY NAME ": %s-sg%u: summary %u of %u chains of %u descriptors of %lu bytes, %u failures, %llu ns\n"
#define FIGURES(of)                                                                                                    \
	(of)->channel, (of)->number, (of)->done, test.iterations, test.buffers, test.bytes, (of)->failures, (of)->took_ns

static int copy_all(void *data)
{
	struct copier *copier = data;
	unsigned int i;

	for (i = 0; i < test.iterations && !kthread_should_stop(); i++) {
		struct pass *pass = &test.passes[(size_t)i * test.count + copier->index];

		pass->begin_ns = ktime_get_clocktai_ns();
		if (chain(copier)) {
			copier->failures++;
			dmaengine_terminate_sync(copier->line->chan);
			break;
		}
		pass->end_ns = ktime_get_clocktai_ns();
		copier->took_ns += pass->end_ns - pass->begin_ns;
		// Who reads the number may read the passes.
		smp_store_release(&copier->done, i + 1);
	}
	if (copier->done)
		copier->failures += differing(copier);
	printk(KERN_INFO SUMMARY, FIGURES(copier));
	atomic_dec_return_release(&running);
	return 0;
}

static void give_buffers_back(struct copier *copier)
{
	struct device *device;
	unsigned int i;

	if (!copier->buffers)
		return;
	device = copier->line->chan->device->dev;
	for (i = 0; i < test.buffers; i++) {
		struct buffer *buffer = &copier->buffers[i];

		if (buffer->is_mapped) {
			dma_unmap_single(device, buffer->from_dma, test.bytes, DMA_TO_DEVICE);
			dma_unmap_single(device, buffer->to_dma, test.bytes, DMA_FROM_DEVICE);
		}
		kfree(buffer->from);
		kfree(buffer->to);
	}
	kvfree(copier->buffers);
	copier->buffers = NULL;
}

static int take_buffers(struct copier *copier)
{
	struct device *device = copier->line->chan->device->dev;
	unsigned long at;
	unsigned int i;

	copier->buffers = kvcalloc(test.buffers, sizeof(*copier->buffers), GFP_KERNEL);
	if (!copier->buffers)
		return -ENOMEM;
	for (i = 0; i < test.buffers; i++) {
		struct buffer *buffer = &copier->buffers[i];

		buffer->from = kmalloc(test.bytes, GFP_KERNEL | __GFP_NOWARN);
		buffer->to = kzalloc(test.bytes, GFP_KERNEL | __GFP_NOWARN);
		if (!buffer->from || !buffer->to)
			return -ENOMEM;
		for (at = 0; at < test.bytes; at++)
			buffer->from[at] = pattern(copier, i, at);
		buffer->from_dma = dma_map_single(device, buffer->from, test.bytes, DMA_TO_DEVICE);
		if (dma_mapping_error(device, buffer->from_dma))
			return -ENOMEM;
		buffer->to_dma = dma_map_single(device, buffer->to, test.bytes, DMA_FROM_DEVICE);
		if (dma_mapping_error(device, buffer->to_dma)) {
			dma_unmap_single(device, buffer->from_dma, test.bytes, DMA_TO_DEVICE);
			return -ENOMEM;
		}
		buffer->is_mapped = true;
		cond_resched();
	}
	return 0;
}

// Ends the threads, and gives back all but the figures.
static void stop(void)
{
	unsigned int i;

	for (i = 0; i < test.count; i++) {
		struct copier *copier = &test.copiers[i];

		if (copier->task) {
			kthread_stop(copier->task);
			put_task_struct(copier->task);
			copier->task = NULL;
		}
	}
	for (i = 0; i < test.count && test.lines_count; i++)
		give_buffers_back(&test.copiers[i]);
	for (i = 0; i < test.lines_count; i++)
		dma_release_channel(test.lines[i].chan);
	test.lines_count = 0;
	atomic_set(&running, 0);
}

static void forget(void)
{
	stop();
	kvfree(test.passes);
	kvfree(test.copiers);
	test.passes = NULL;
	test.copiers = NULL;
	test.count = 0;
}

static bool is_called(struct dma_chan *chan, void *name)
{
	return !strcmp(dma_chan_name(chan), name);
}

static int take_channels(char *names)
{
	dma_cap_mask_t mask;
	char *name;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	while ((name = strsep(&names, ","))) {
		struct line *line = &test.lines[test.lines_count];
		struct dma_chan *chan;

		name = strim(name);
		if (!*name)
			continue;
		if (test.lines_count == MOST_CHANNELS)
			return -E2BIG;
		chan = dma_request_channel(mask, is_called, name);
		if (!chan) {
			pr_err(NAME ": channel %s is not there, or in use\n", name);
			return -ENODEV;
		}
		line->chan = chan;
		mutex_init(&line->lock);
		test.lines_count++;
	}
	return test.lines_count ? 0 : -ENODEV;
}

static int take_threads(void)
{
	unsigned int i;
	int error;

	test.copiers = kvcalloc(test.count, sizeof(*test.copiers), GFP_KERNEL);
	test.passes = kvcalloc((size_t)test.count * test.iterations, sizeof(*test.passes), GFP_KERNEL);
	if (!test.copiers || !test.passes)
		return -ENOMEM;
	for (i = 0; i < test.count; i++) {
		struct copier *copier = &test.copiers[i];

		copier->index = i;
		copier->number = i % test.threads;
		copier->line = &test.lines[i / test.threads];
		init_completion(&copier->copied);
		strscpy(copier->channel, dma_chan_name(copier->line->chan), sizeof(copier->channel));
	}
	for (i = 0; i < test.count; i++) {
		struct copier *copier = &test.copiers[i];
		struct task_struct *task;

		error = take_buffers(copier);
		if (error)
			return error;
		task = kthread_create(copy_all, copier, "%s-sg%u", copier->channel, copier->number);
		if (IS_ERR(task))
			return PTR_ERR(task);
		get_task_struct(task);
		copier->task = task;
	}
	return 0;
}

static int start(void)
{
	char *names;
	int error;

	if (atomic_read_acquire(&running))
		return -EBUSY;
	forget();
	if (!threads || threads > MOST_THREADS || !iterations || !buffers || buffers > MOST_BUFFERS || !bytes ||
	    bytes > KMALLOC_MAX_SIZE)
		return -EINVAL;
	test.threads = threads;
	test.iterations = iterations;
	test.buffers = buffers;
	test.bytes = bytes;
	test.timeout_ms = timeout_ms;
	names = kstrdup(channels, GFP_KERNEL);
	if (!names)
		return -ENOMEM;
	error = take_channels(names);
	kfree(names);
	test.count = test.lines_count * threads;
	if (!error && (u64)test.count * iterations > MOST_PASSES)
		error = -E2BIG;
	if (error) {
		test.count = 0;
		stop();
		return error;
	}
	error = take_threads();
	if (error) {
		if (!test.copiers)
			test.count = 0;
		forget();
		return error;
	}
	return 0;
}

static int set_run(const char *value, const struct kernel_param *param)
{
	unsigned int i;
	bool runs;
	int error = kstrtobool(value, &runs);

	if (error)
		return error;
	mutex_lock(&lock);
	if (!runs)
		stop();
	else if (test.is_leaving)
		error = -ENODEV;
	else
		error = start();
	if (runs && !error) {
		atomic_set(&running, test.count);
		for (i = 0; i < test.count; i++)
			wake_up_process(test.copiers[i].task);
	}
	mutex_unlock(&lock);
	return error;
}

static int get_run(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%c\n", atomic_read_acquire(&running) ? 'Y' : 'N');
}

static const struct kernel_param_ops run_ops = { .set = set_run, .get = get_run };
module_param_cb(run, &run_ops, NULL, 0644);
MODULE_PARM_DESC(run, "Y begins, N ends and gives the channels back; N once all threads are done");

static void *entry(loff_t *at)
{
	u64 all = (u64)test.count * (test.iterations + 1ULL);

	// The number of the entry and one, since the first is no end.
	return *at < all ? (void *)(uintptr_t)(*at + 1) : NULL;
}

static void *first_entry(struct seq_file *file, loff_t *at)
{
	mutex_lock(&lock);
	return entry(at);
}

static void *next_entry(struct seq_file *file, void *of, loff_t *at)
{
	++*at;
	return entry(at);
}

static void end_entries(struct seq_file *file, void *of)
{
	mutex_unlock(&lock);
}

static int show_entry(struct seq_file *file, void *of)
{
	size_t at = (uintptr_t)of - 1, pass = at - test.count;
	struct copier *copier;

	if (at < test.count) {
		seq_printf(file, SUMMARY, FIGURES(&test.copiers[at]));
		return 0;
	}
	copier = &test.copiers[pass % test.count];
	if (pass / test.count >= smp_load_acquire(&copier->done))
		return SEQ_SKIP;
	seq_printf(file, "%u %llu %llu\n", copier->index, test.passes[pass].begin_ns, test.passes[pass].end_ns);
	return 0;
}

static const struct seq_operations entries = {
	.start = first_entry,
	.next = next_entry,
	.stop = end_entries,
	.show = show_entry,
};

static int __init begin(void)
{
	return proc_create_seq(NAME, 0400, NULL, &entries) ? 0 : -ENOMEM;
}

static void __exit end(void)
{
	remove_proc_entry(NAME, NULL);
	mutex_lock(&lock);
	test.is_leaving = true;
	forget();
	mutex_unlock(&lock);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("tardy's own test of DMA controllers: chains of several descriptors");
