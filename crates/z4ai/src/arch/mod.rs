//! Kernels: the hot loops for one instruction set each, all giving the same bytes.
//!
//! A transform or an entropy coder has its hot loops in a `Steps` trait, whose default methods are the
//! portable code. A kernel is a type without data that implements all of these traits: [`Portable`] overrides
//! nothing, the others what they have instructions for, in `<architecture>/<instruction set>/<transform>.rs`.
//! A value of such a type exists only where the CPU has its instructions. Code outside calls
//! `dispatch!(kernel => kernel.step(…))`, which runs the step of the best kernel; every step does all of its
//! work, whatever the kernel.
//!
//! Only this module has `unsafe` code; everything above it is checked by the compiler.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod adaptive;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod eight;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod heads;
pub(crate) mod memory;
pub(crate) mod pages;
mod portable;
mod shuffles;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub(crate) use portable::Portable;

use std::sync::OnceLock;

/// The instructions of a kernel.
pub(crate) trait Instructions: Copy + std::fmt::Debug {
    /// Runs `work` compiled for these instructions: loops that are inlined into the closure vectorise with
    /// the wider registers.
    #[inline(always)]
    fn vectorised<R>(self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// One of the kernels that this CPU can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_64::Avx512),
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon(aarch64::Neon),
}

/// Evaluates an expression with the active kernel, compiled once for each type of kernel:
/// `dispatch!(kernel => kernel.spread(bitmap, dense, elements))`.
macro_rules! dispatch {
    ($kernel:ident => $call:expr) => {
        match $crate::arch::Kernel::active() {
            $crate::arch::Kernel::Portable($kernel) => $call,
            #[cfg(target_arch = "x86_64")]
            $crate::arch::Kernel::Avx2($kernel) => $call,
            #[cfg(target_arch = "x86_64")]
            $crate::arch::Kernel::Avx512($kernel) => $call,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            $crate::arch::Kernel::Neon($kernel) => $call,
        }
    };
}
pub(crate) use dispatch;

/// The environment variable that names the best kernel to be used: `portable`, `avx2`, `avx512` or `neon`.
/// For measurements.
const KERNEL_VARIABLE: &str = "Z4AI_KERNEL";

impl Kernel {
    /// The kernel that runs the steps: the best one that this CPU has.
    #[inline]
    pub fn active() -> Self {
        #[cfg(any(test, fuzzing))]
        if let Some(forced) = FORCED.get() {
            return forced;
        }
        static ACTIVE: OnceLock<Kernel> = OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let mut kernels = Self::available();
            let limit = std::env::var(KERNEL_VARIABLE).ok();
            let allowed = kernels.iter().position(|kernel| limit.as_deref() == Some(kernel.name()));
            kernels.truncate(allowed.map_or(kernels.len(), |last| last + 1));
            kernels.pop().unwrap_or(Self::Portable(Portable))
        })
    }

    /// Every kernel that this CPU can run, the best last.
    pub fn available() -> Vec<Self> {
        let kernels = [
            Some(Self::Portable(Portable)),
            #[cfg(target_arch = "x86_64")]
            x86_64::Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            x86_64::Avx512::detect().map(Self::Avx512),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            aarch64::Neon::detect().map(Self::Neon),
        ];
        kernels.into_iter().flatten().collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::Neon(_) => "neon",
        }
    }
}

/// Runs `work` compiled for the active kernel's instructions.
#[inline]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    dispatch!(kernel => kernel.vectorised(work))
}

#[cfg(any(test, fuzzing))]
thread_local! {
    static FORCED: std::cell::Cell<Option<Kernel>> = const { std::cell::Cell::new(None) };
}

#[cfg(any(test, fuzzing))]
impl Kernel {
    /// The portable kernel, which all others must agree with.
    pub const PORTABLE: Self = Self::Portable(Portable);

    /// Runs `work`, and what it has other threads do, with this kernel.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        force(Some(self), work)
    }
}

/// The kernel that tests have chosen for this thread.
#[cfg(any(test, fuzzing))]
pub(crate) fn forced() -> Option<Kernel> {
    FORCED.get()
}

/// Runs `work` with this choice.
#[cfg(any(test, fuzzing))]
pub(crate) fn force<R>(kernel: Option<Kernel>, work: impl FnOnce() -> R) -> R {
    /// Puts the earlier choice back, even if `work` panics.
    struct FormerKernel(Option<Kernel>);
    impl Drop for FormerKernel {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    let _restore = FormerKernel(FORCED.replace(kernel));
    work()
}
