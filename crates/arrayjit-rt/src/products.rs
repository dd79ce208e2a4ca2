//! Code that `arrayjit-aot` compiled for a library `with_products` calls this module for its large products
//! and convolutions.
//!
//! A plan packs operands for the caches, as in a process that compiles. Its data is a constant of the object
//! file, and the functions of its epilogue are code there. The first run of a product makes its plan, which
//! takes microseconds and stays allocated.
#![allow(unsafe_code, reason = "code of objects calls this, and is called")]

use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

use microkernels::{GemmPlan, LinkedPlan, VectorFunction};

/// The version of the data of plans. Modules that `arrayjit-aot` writes check it when a program is built.
pub const VERSION: u32 = microkernels::PLAN_VERSION;

/// A product in the data of an object. The addresses of its functions follow it.
#[repr(C)]
struct ObjectProduct {
    /// Null until the first run.
    plan: AtomicPtr<GemmPlan>,
    /// The data of the plan.
    data: *const u8,
    bytes: usize,
    /// The number of functions.
    functions: usize,
}

/// Runs a part of a product.
///
/// # Safety
///
/// An object that `arrayjit-aot` compiled calls this, with one of its products and the arguments of
/// [`GemmPlan::run`].
// SAFETY: the name is that of no function of another library.
#[unsafe(export_name = "arrayjit_rt_product_3")]
unsafe extern "C" fn product(
    product: *const ObjectProduct,
    args: *const *mut u8,
    bindings: *const i64,
    scratch: *mut u8,
    begin: u64,
    end: u64,
) {
    // SAFETY: the caller's promise. A plan is never freed once it is in a product.
    unsafe {
        let plan = (*product).plan.load(Ordering::Acquire);
        let plan = if plan.is_null() { made(product) } else { &*plan };
        plan.run(args, bindings, scratch, begin, end);
    }
}

/// Makes the plan of a product, unless another thread is faster.
///
/// # Safety
///
/// The caller makes the promise of [`product`].
#[cold]
unsafe fn made<'p>(product: *const ObjectProduct) -> &'p GemmPlan {
    // SAFETY: the object has this data and, behind the product, these functions. It was compiled for this
    // version, which is a part of the symbol's name.
    let plan = unsafe {
        let ObjectProduct { data, bytes, functions, .. } = *product;
        let data = slice::from_raw_parts(data, bytes);
        let functions = slice::from_raw_parts(product.add(1).cast::<VectorFunction>(), functions);
        let linked: Option<LinkedPlan<'_>> = postcard::from_bytes(data).ok();
        linked.and_then(|linked| linked.plan(functions))
    };
    let Some(plan) = plan else { unreachable!("the object was compiled for another processor") };
    let plan = Box::into_raw(Box::new(plan));
    // SAFETY: `plan` comes from a box, and is freed only if nobody else has seen it.
    unsafe {
        let slot = &(*product).plan;
        match slot.compare_exchange(ptr::null_mut(), plan, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => &*plan,
            Err(first) => {
                drop(Box::from_raw(plan));
                &*first
            }
        }
    }
}
