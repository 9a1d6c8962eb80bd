// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's arguments. They are pure, and hold no path but the kernel's. Its process is
//! [`crate::host::qemu`].

use super::folder::{INITRAMFS, PORT};
use crate::host::qemu::SANDBOX;
use tardy_model::manifest::GuestMode;

/// What the guest's kernel writes to its console, in the folder that QEMU is started in.
pub const CONSOLE: &str = "console.log";
/// What the registers of its processors held when tardy gave it up, in the same folder.
pub const REGISTERS: &str = "registers.txt";

/// The emulated processor: all that QEMU has, but for two things. If the processor claims to copy
/// strings fast, the kernel lets it copy them byte by byte. Each byte would count as an
/// instruction, so that a copy took eight times as long as by words. Page tables of five levels
/// make each look at them longer, for memory that no guest has.
const EMULATED: &str = "-cpu max,-erms,-fsrm,-la57";
/// How instructions are counted; `shift` is the logarithm of
/// [`INSTRUCTION_NS`](tardy_model::manifest::INSTRUCTION_NS). That the run is recorded, to
/// nowhere, keeps QEMU's two threads apart. One executes the guest; the other moves the clock on
/// to the next timer once the guest's processor has halted. But it is marked as halted a little
/// before its last instructions are added to the count: if the other thread looks just then, it
/// moves the clock on from a count that is behind, these instructions come on top, and idle time
/// ends some nanoseconds late, as the host's scheduler wills. While QEMU records, one of the two
/// waits until the other has done.
const COUNTED: &str = "shift=1,sleep=off,rr=record,rrfile=/dev/null";
/// What a kernel does at its start and no run needs: self-tests of ciphers, a source of randomness
/// that nobody asks, keys for signatures that nothing here has, names for what tracepoints print,
/// probes that nobody sets.
const LEFT_OUT: &str =
    "jent_mod_init,crypto_kdf108_init,init_encrypted,load_system_certificate_list,trace_eval_init,init_kprobe_trace";

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    Tcg,
    Kvm,
}

impl Accelerator {
    /// QEMU's word for it, which the manifest has too.
    pub const fn name(self) -> &'static str {
        match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        }
    }
}

/// The machine that QEMU provides for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualMachine {
    /// How its time goes.
    pub mode: GuestMode,
    pub accelerator: Accelerator,
    pub cpus: u32,
    pub memory_mib: u64,
    pub kernel: String,
    /// More words for the kernel's command line.
    pub append: String,
    /// QEMU filters its own system calls.
    pub sandbox: bool,
}

impl VirtualMachine {
    /// QEMU's arguments. Its files have fixed names in the folder that it is started in.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut put = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        put("-M q35 -nodefaults -no-user-config -no-reboot -display none -monitor none");
        if self.sandbox {
            put(&format!("-sandbox {SANDBOX}"));
        }
        // The usual one looks for disks and screens for half a second.
        put("-bios qboot.rom");
        match (self.mode, self.accelerator) {
            // Each of these is needed: without the seed, for one, most latencies differ from run
            // to run.
            (GuestMode::Exact, Accelerator::Tcg) => {
                put("-accel tcg -rtc base=2026-01-01T00:00:00,clock=vm -seed 1 -icount");
                put(COUNTED);
                put(EMULATED);
            }
            (GuestMode::RealTime, Accelerator::Tcg) => {
                put("-accel tcg,thread=multi -rtc base=utc");
                put(EMULATED);
            }
            // In exact time the clocks are those of the guest that runs it, which are exact.
            (_, Accelerator::Kvm) => put("-accel kvm -rtc base=utc -cpu host"),
        }
        put(&format!("-smp {} -m {}", self.cpus, self.memory_mib));
        put(&format!("-serial file:{CONSOLE} -serial file:{PORT}"));
        words.extend(["-kernel".to_owned(), self.kernel.clone()]);
        words.extend(["-initrd".to_owned(), INITRAMFS.to_owned()]);
        words.extend(["-append".to_owned(), self.command_line()]);
        words
    }

    /// The kernel's command line.
    pub fn command_line(&self) -> String {
        // This leaves out what costs seconds when it is emulated: if the kernel protects memory, it
        // also searches all page tables for what is not protected.
        let mut line = format!(
            "console=ttyS0 quiet panic=-1 cryptomgr.notests=1 initcall_blacklist={LEFT_OUT} no_timer_check rodata=off"
        );
        if self.mode == GuestMode::Exact {
            // Nothing by chance: where chance decides, one instruction more or less anywhere is
            // another draw of everything.
            line += " nokaslr norandmaps randomize_kstack_offset=off random.trust_cpu=off mitigations=off";
            // The processor's counter runs at 1 GHz there: measuring it would only make it wrong
            // by some millionths.
            line += " tsc=reliable tsc_early_khz=1000000";
            match self.accelerator {
                // Nor is the local APIC's timer measured, in a loop that took a third of the boot's
                // processor time: HPET's is as good for one processor, and says how fast it runs.
                Accelerator::Tcg => line += " nolapic_timer",
                // KVM has an APIC of its own, and QEMU emulates the HPET. Looking through all buses
                // for chips with errors costs thousands of exits.
                Accelerator::Kvm => line += " pci=noearly",
            }
        }
        if !self.append.is_empty() {
            line += " ";
            line += &self.append;
        }
        line
    }
}
