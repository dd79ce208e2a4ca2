//! Low-rank adapters of linear maps.

use arrayjit::DType;

use crate::{
    error::{Call, Result, misfit},
    graph::Graph,
    model_state::ModelState,
    nn::{Dropout, Linear, Module, linear},
    operand::number,
    options::options,
    parameter::{Init, Parameter, Params},
    tensor::Tensor,
};

/// A [`Linear`] map that is frozen, with a trainable one of low rank beside it:
/// `base(x) + alpha / rank · x · lora_Aᵀ · lora_Bᵀ`. `lora_A` begins as torch's linear maps do, and `lora_B`
/// with zeros, so the results are at first those of the base.
///
/// The parameters have the names of the package PEFT, behind the path of the linear map:
/// `lora_A.weight` and `lora_B.weight`. A file `adapter_model.safetensors` has `base_model.model.` before the
/// path, so [`ModelState::load_renamed`] and [`ModelState::save_renamed`] exchange adapters with PEFT.
///
/// ```
/// use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params};
/// use arrayjit_tensor::nn::{Linear, Lora, Module};
///
/// let params = Params::new(42);
/// let layer = params.sub("query");
/// let query = Lora::new(&layer, Linear::new(&layer, 64, 64)?, 4, 8.0)?;
/// let trainable: Vec<String> = params.trainable().iter().map(|p| p.name().to_owned()).collect();
/// assert_eq!(trainable, ["query.lora_A.weight", "query.lora_B.weight"]);
///
/// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
/// let graph = Graph::new();
/// let x = graph.input("x", [2, 64], DType::F32)?;
/// let model = graph.compile(&weights, &[&query.forward(&x)?, &query.base.forward(&x)?])?;
/// query.merge(&weights)?; // the base alone now has the results of both
/// let results = model.run(&[("x", &HostArray::zeros(DType::F32, [2, 64])?)])?;
/// assert_eq!(results[0].values(), results[1].values());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: Hu and others, LoRA: Low-rank adaptation of large language models, 2021.
pub struct Lora {
    /// The linear map, whose parameters are frozen.
    pub base: Linear,
    /// `lora_A.weight`, of shape `[rank, inputs]`.
    pub lora_a: Parameter,
    /// `lora_B.weight`, of shape `[outputs, rank]`.
    pub lora_b: Parameter,
    /// The factor of the map of low rank.
    pub scale: f64,
    dropout: Dropout,
}

/// The options of a [`Lora`] whose parameters are not made yet.
pub struct LoraBuilder {
    params: Params,
    base: Linear,
    rank: usize,
    alpha: f64,
    dropout: f64,
}

impl Lora {
    /// Freezes a linear map and adds a map of this rank, multiplied by `alpha / rank`. `params` are those
    /// that the linear map was made with, or others of its path, such as [`Params::with_dtype`] for an
    /// adapter in f32 of a base in bf16.
    ///
    /// # Errors
    /// Fails like [`LoraBuilder::build`].
    #[track_caller]
    pub fn new(params: &Params, base: Linear, rank: usize, alpha: f64) -> Result<Lora> {
        Lora::builder(params, base, rank).alpha(alpha).build()
    }

    /// [`new`](Lora::new) with options; `alpha` is the rank by default.
    pub fn builder(params: &Params, base: Linear, rank: usize) -> LoraBuilder {
        LoraBuilder { params: params.clone(), base, rank, alpha: rank as f64, dropout: 0.0 }
    }

    /// Adds the map of low rank to the weight of the base, and sets `lora_B` to zero: the results stay those
    /// of before up to rounding, and [`base`](Lora::base) alone has them too.
    ///
    /// # Errors
    /// A factor that is not finite, parameters of another model, or an error of the device.
    #[track_caller]
    pub fn merge(&self, weights: &ModelState) -> Result<()> {
        let (call, graph) = (Call::new("merge"), Graph::new());
        let _scope = graph.enter(self.base.weight.module());
        self.check_scale(call, &graph)?;
        let dtype = self.base.weight.dtype();
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let text = format!(
            "d[o,i] :+= {wide}(b[o,r]) * {wide}(a[r,i])\n\
             w[o,i] := {dtype}({wide}(w[o,i]) + {} * d[o,i])\n\
             b[o,r] := 0",
            number(self.scale)
        );
        let inputs: [(&str, &dyn crate::TensorOperand); 3] =
            [("w", &&self.base.weight), ("a", &&self.lora_a), ("b", &&self.lora_b)];
        let _ = graph.apply_all(&text, &inputs, [])?;
        graph.compile(weights, &[])?.run(&[])?;
        Ok(())
    }

    fn check_scale(&self, call: Call, graph: &Graph) -> Result<()> {
        if self.scale.is_finite() {
            return Ok(());
        }
        Err(graph.fail(call, misfit("scale", self.scale, "a finite number")))
    }
}

impl LoraBuilder {
    options! {
        /// The factor of the map of low rank, times its rank.
        alpha: f64 => alpha;
        /// The probability to drop an element of the input of the map of low rank in training; 0 by default.
        dropout: f64 => dropout;
    }

    /// Freezes the linear map and makes the parameters.
    ///
    /// # Errors
    /// A rank of 0, an `alpha` that is not finite, a rate of dropout outside 0..1, a linear map of another
    /// path or model, or a name that exists already.
    #[track_caller]
    pub fn build(self) -> Result<Lora> {
        let LoraBuilder { params, base, rank, alpha, dropout } = self;
        let (call, path) = (Call::new("Lora"), params.path());
        if rank == 0 {
            return Err(call.error(path, misfit("rank", rank, "at least 1")));
        }
        if !alpha.is_finite() {
            return Err(call.error(path, misfit("alpha", alpha, "a finite number")));
        }
        let own = [Some(&base.weight), base.bias.as_ref()];
        if let Some(other) = own.into_iter().flatten().find(|own| own.module() != path || !params.has(own)) {
            let expected = format!("a map whose parameters these `Params` made at `{path}`");
            return Err(call.error(path, misfit("base", format!("`{}`", other.name()), expected)));
        }
        let &[outputs, inputs] = base.weight.shape() else {
            let found = format!("a weight of shape {:?}", base.weight.shape());
            return Err(call.error(path, misfit("base", found, "a weight of 2 axes")));
        };
        let dropout = Dropout::of_module(call, &params, dropout)?;
        let lora_a = params.sub("lora_A").parameter("weight", [rank, inputs], linear::uniform(inputs))?;
        let lora_b = params.sub("lora_B").parameter("weight", [outputs, rank], Init::ZEROS)?;
        let names = own.map(|own| own.map(|own| own.name().to_owned()));
        params.freeze(|name| names.iter().flatten().any(|own| own == name));
        Ok(Lora { base, lora_a, lora_b, scale: alpha / rank as f64, dropout })
    }
}

impl Module for Lora {
    /// `[…, inputs]` to `[…, outputs]`, in the type of the result of the base.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.base.forward(x)?;
        let call = Call::new("lora");
        self.check_scale(call, x.graph())?;
        let _scope = x.graph().enter(self.base.weight.module());
        let low = self.dropout.forward(x)?.linear(&self.lora_a, None)?;
        let delta = low.linear(&self.lora_b, None)?;
        let sum = (&y + (delta * self.scale)?)?;
        if sum.dtype() == y.dtype() { Ok(sum) } else { sum.to_dtype(y.dtype()) }
    }
}
