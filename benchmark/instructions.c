/* Counts the instructions that a program runs in qemu's user mode, in all and by block of code, for CPUs that are not at hand to be timed:
 * `make bench-arm` builds and uses it. qemu's header is not packaged everywhere, so the few declarations of its plug-in interface are here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int operation, void *, uint64_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

int qemu_plugin_version = 1;

struct block {
    uint64_t address, instructions;
    struct block *next;
};
static struct block *blocks;
static const char *by_block;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    struct block *block = calloc(1, sizeof *block);
    (void)id;
    if (!block)
        abort();
    block->address = qemu_plugin_tb_vaddr(tb);
    block->next = blocks;
    blocks = block;
    /* Operation 0 adds to a number. */
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &block->instructions, qemu_plugin_tb_n_insns(tb));
}

static void finished(qemu_plugin_id_t id, void *data)
{
    uint64_t total = 0;
    (void)id, (void)data;
    for (struct block *block = blocks; block; block = block->next) {
        total += block->instructions;
        if (by_block)
            fprintf(stderr, "block %" PRIx64 " %" PRIu64 "\n", block->address, block->instructions);
    }
    fprintf(stderr, "instructions %" PRIu64 "\n", total);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments)
{
    (void)info, (void)count, (void)arguments;
    by_block = getenv("INSTRUCTIONS_BY_BLOCK");
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
