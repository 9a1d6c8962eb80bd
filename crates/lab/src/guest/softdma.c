// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two DMA controllers of two channels each, in software: the kernel's dmatest can test them where
// there is no hardware for it. A channel is a worker that copies with a CPU whatever was issued to
// it, one descriptor after the other; the channels do so at the same time if there are CPUs for it.
// Built out of the kernel's tree, for guests.
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#define CONTROLLERS 2
#define CHANNELS 2

struct descriptor {
	struct dma_async_tx_descriptor tx;
	struct list_head node;
	dma_addr_t to, from;
	size_t bytes;
};

struct channel {
	struct dma_chan chan;
	// Holds both lists and the cookies together.
	spinlock_t lock;
	struct list_head submitted, issued;
	struct workqueue_struct *worker;
	struct work_struct work;
	// How long it has copied so far, where anybody may read it.
	unsigned long long *busy_ns;
};

struct controller {
	struct dma_device dma;
	struct channel channels[CHANNELS];
};

static unsigned long long busy_ns[CONTROLLERS * CHANNELS];
module_param_array(busy_ns, ullong, NULL, 0444);
MODULE_PARM_DESC(busy_ns, "how long each channel has copied so far, ns");

static struct platform_device *devices[CONTROLLERS];

static struct channel *channel_of(struct dma_chan *chan)
{
	return container_of(chan, struct channel, chan);
}

static dma_cookie_t submit(struct dma_async_tx_descriptor *tx)
{
	struct descriptor *descriptor = container_of(tx, struct descriptor, tx);
	struct channel *channel = channel_of(tx->chan);
	unsigned long flags;
	dma_cookie_t cookie;

	spin_lock_irqsave(&channel->lock, flags);
	cookie = channel->chan.cookie + 1;
	if (cookie < DMA_MIN_COOKIE)
		cookie = DMA_MIN_COOKIE;
	tx->cookie = channel->chan.cookie = cookie;
	list_add_tail(&descriptor->node, &channel->submitted);
	spin_unlock_irqrestore(&channel->lock, flags);
	return cookie;
}

static struct dma_async_tx_descriptor *prepare(struct dma_chan *chan, dma_addr_t to, dma_addr_t from, size_t bytes,
					       unsigned long flags)
{
	struct descriptor *descriptor = kzalloc(sizeof(*descriptor), GFP_NOWAIT);

	if (!descriptor)
		return NULL;
	dma_async_tx_descriptor_init(&descriptor->tx, chan);
	descriptor->tx.flags = flags;
	descriptor->tx.tx_submit = submit;
	descriptor->to = to;
	descriptor->from = from;
	descriptor->bytes = bytes;
	return &descriptor->tx;
}

static struct descriptor *next_of(struct channel *channel)
{
	struct descriptor *descriptor;
	unsigned long flags;

	spin_lock_irqsave(&channel->lock, flags);
	descriptor = list_first_entry_or_null(&channel->issued, struct descriptor, node);
	if (descriptor)
		list_del(&descriptor->node);
	spin_unlock_irqrestore(&channel->lock, flags);
	return descriptor;
}

static void tell(struct descriptor *descriptor)
{
	struct dmaengine_result result = { .result = DMA_TRANS_NOERROR };
	struct dma_async_tx_descriptor *tx = &descriptor->tx;

	if (tx->callback_result)
		tx->callback_result(tx->callback_param, &result);
	else if (tx->callback)
		tx->callback(tx->callback_param);
}

static void copy_all(struct work_struct *work)
{
	struct channel *channel = container_of(work, struct channel, work);
	struct descriptor *descriptor;

	while ((descriptor = next_of(channel))) {
		u64 began = ktime_get_ns();

		memcpy(phys_to_virt(descriptor->to), phys_to_virt(descriptor->from), descriptor->bytes);
		*channel->busy_ns += ktime_get_ns() - began;
		// What was copied is there before anybody learns that it was.
		smp_store_release(&channel->chan.completed_cookie, descriptor->tx.cookie);
		dma_descriptor_unmap(&descriptor->tx);
		tell(descriptor);
		kfree(descriptor);
		cond_resched();
	}
}

static void issue(struct dma_chan *chan)
{
	struct channel *channel = channel_of(chan);
	unsigned long flags;

	spin_lock_irqsave(&channel->lock, flags);
	list_splice_tail_init(&channel->submitted, &channel->issued);
	spin_unlock_irqrestore(&channel->lock, flags);
	queue_work(channel->worker, &channel->work);
}

static enum dma_status status(struct dma_chan *chan, dma_cookie_t cookie, struct dma_tx_state *state)
{
	return dma_async_is_complete(cookie, smp_load_acquire(&chan->completed_cookie), chan->cookie);
}

static int take(struct dma_chan *chan)
{
	chan->cookie = chan->completed_cookie = DMA_MIN_COOKIE;
	return 1;
}

static void wait_for(struct dma_chan *chan)
{
	flush_work(&channel_of(chan)->work);
}

static void give_back(struct dma_chan *chan)
{
	struct channel *channel = channel_of(chan);
	struct descriptor *descriptor, *next;
	LIST_HEAD(left);
	unsigned long flags;

	wait_for(chan);
	// Submitted and never issued.
	spin_lock_irqsave(&channel->lock, flags);
	list_splice_tail_init(&channel->submitted, &left);
	spin_unlock_irqrestore(&channel->lock, flags);
	list_for_each_entry_safe(descriptor, next, &left, node)
		kfree(descriptor);
}

static int terminate(struct dma_chan *chan)
{
	// A copy by a CPU ends by itself.
	return 0;
}

static void end_workers(struct controller *controller)
{
	int i;

	for (i = 0; i < CHANNELS; i++)
		if (controller->channels[i].worker)
			destroy_workqueue(controller->channels[i].worker);
}

static int add_controller(struct platform_device *device)
{
	struct controller *controller = devm_kzalloc(&device->dev, sizeof(*controller), GFP_KERNEL);
	struct dma_device *dma;
	int i, error;

	if (!controller)
		return -ENOMEM;
	error = dma_coerce_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	dma = &controller->dma;
	dma->dev = &device->dev;
	INIT_LIST_HEAD(&dma->channels);
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
	dma->copy_align = DMAENGINE_ALIGN_1_BYTE;
	dma->device_prep_dma_memcpy = prepare;
	dma->device_issue_pending = issue;
	dma->device_tx_status = status;
	dma->device_alloc_chan_resources = take;
	dma->device_free_chan_resources = give_back;
	dma->device_terminate_all = terminate;
	dma->device_synchronize = wait_for;
	for (i = 0; i < CHANNELS; i++) {
		struct channel *channel = &controller->channels[i];

		spin_lock_init(&channel->lock);
		INIT_LIST_HEAD(&channel->submitted);
		INIT_LIST_HEAD(&channel->issued);
		INIT_WORK(&channel->work, copy_all);
		channel->busy_ns = &busy_ns[device->id * CHANNELS + i];
		channel->worker = alloc_ordered_workqueue("softdma%d.%d", WQ_HIGHPRI, device->id, i);
		if (!channel->worker) {
			end_workers(controller);
			return -ENOMEM;
		}
		channel->chan.device = dma;
		list_add_tail(&channel->chan.device_node, &dma->channels);
	}
	error = dma_async_device_register(dma);
	if (error)
		end_workers(controller);
	else
		platform_set_drvdata(device, controller);
	return error;
}

// Linux 6.11 has no answer for a driver to give here.
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define REMOVED void
#define NOTHING
#else
#define REMOVED int
#define NOTHING 0
#endif

static REMOVED remove_controller(struct platform_device *device)
{
	struct controller *controller = platform_get_drvdata(device);

	dma_async_device_unregister(&controller->dma);
	end_workers(controller);
	return NOTHING;
}

static struct platform_driver driver = {
	.driver = { .name = "tardy_softdma" },
	.probe = add_controller,
	.remove = remove_controller,
};

static void remove_devices(void)
{
	int i;

	for (i = 0; i < CONTROLLERS; i++)
		if (!IS_ERR_OR_NULL(devices[i]))
			platform_device_unregister(devices[i]);
}

static int __init begin(void)
{
	int i, error = platform_driver_register(&driver);

	if (error)
		return error;
	for (i = 0; i < CONTROLLERS; i++) {
		devices[i] = platform_device_register_simple("tardy_softdma", i, NULL, 0);
		if (IS_ERR(devices[i])) {
			error = PTR_ERR(devices[i]);
			remove_devices();
			platform_driver_unregister(&driver);
			return error;
		}
	}
	return 0;
}

static void __exit end(void)
{
	remove_devices();
	platform_driver_unregister(&driver);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("DMA controllers in software, for dmatest");
