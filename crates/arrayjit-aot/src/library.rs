//! Routines for a target, compiled one after the other.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrayjit::{Backend, BackendParts, Compiled, Device, HostArray, Nodes, Settings, TensorNode, ir::Symbol};
use codegen_core::caps::BASE_ALIGNMENT;
use codegen_core::{Code, Payload};
use codegen_cranelift::object::{
    self, NodePlace, ObjectFormat, ObjectFunction, ObjectLevel, ObjectModule, ObjectTarget,
};
use device_runtime::NullDevice;
use tnode::PartialFile;

use crate::constants::{ConstantPlace, Constants};
use crate::error::AotError;
use crate::object_file::ObjectFile;
use crate::signature::{self, ArrayParameter, FunctionParameter};
use crate::{c_header, rust_module};

/// Routines for a system, each compiled for several levels of processors: a program chooses among them when
/// it starts.
///
/// ```
/// use arrayjit_aot::Library;
///
/// let mut library = Library::new("signal", "x86_64-unknown-linux-gnu")?;
/// library.add_text("scale", "input x f32[3]; y[i] := 2 * x[i]; keep y", &[])?;
/// assert!(library.rust_module().contains("pub fn scale"));
/// assert!(library.object()?.starts_with(b"\x7fELF"));
/// # Ok::<(), arrayjit_aot::AotError>(())
/// ```
#[derive(Debug)]
pub struct Library {
    pub(crate) name: String,
    pub(crate) triple: String,
    /// The best first.
    pub(crate) targets: Vec<ObjectTarget>,
    pub(crate) place: ConstantPlace,
    pub(crate) constants: Constants,
    pub(crate) routines: Vec<LibraryRoutine>,
}

/// A compiled program, and the values of nodes that ship with it.
#[derive(Debug)]
pub struct CompiledProgram {
    /// The code of the backend that was given.
    pub compiled: Compiled,
    /// Nodes that the program only reads, with their values.
    pub constants: Vec<(TensorNode, Arc<HostArray>)>,
    /// Nodes that callers know by these names, in the order of the parameters. If there are none, callers
    /// give all nodes, in the order of the program and by their own names. Otherwise results without a name
    /// are in the arena, and other nodes follow.
    pub names: Vec<(TensorNode, String)>,
    /// Sizes by their names in the program, with those by which callers know them.
    pub sizes: Vec<(String, String)>,
}

impl From<Compiled> for CompiledProgram {
    fn from(compiled: Compiled) -> Self {
        CompiledProgram { compiled, constants: Vec::new(), names: Vec::new(), sizes: Vec::new() }
    }
}

/// A compiled routine of a library, with the arrays, sizes and indices that its callers give.
#[derive(Debug)]
pub struct LibraryRoutine {
    pub(crate) name: String,
    pub(crate) arrays: Vec<ArrayParameter>,
    /// The symbols of the routine, of which the first are parameters.
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) symbol_names: Vec<String>,
    pub(crate) arena_bytes: usize,
    pub(crate) thread_bytes: usize,
    /// The entry and the kernels of each level.
    code: Vec<(ObjectFunction, Vec<ObjectFunction>)>,
}

/// The files of a library.
#[derive(Clone, Debug)]
pub struct LibraryFiles {
    /// The object file.
    pub object: PathBuf,
    /// The Rust module.
    pub rust_module: PathBuf,
    /// The C header.
    pub c_header: PathBuf,
    /// The constants, if they are in a file of their own.
    pub constants: Option<PathBuf>,
}

impl LibraryRoutine {
    /// The name of the routine, which its function has too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arrays that callers give, in the order of the function's parameters.
    pub fn arrays(&self) -> &[ArrayParameter] {
        &self.arrays
    }

    /// The sizes and indices that each run gives.
    pub fn parameters(&self) -> &[Symbol] {
        Symbol::parameters(&self.symbols)
    }

    /// The parameters of the function between those that every routine has.
    pub(crate) fn function_parameters(&self) -> Vec<FunctionParameter<'_>> {
        let symbols = self.parameters().iter().zip(&self.symbol_names);
        let symbols =
            symbols.map(|(symbol, name)| FunctionParameter::Symbol { name, interval: symbol.interval() });
        self.arrays.iter().map(FunctionParameter::Array).chain(symbols).collect()
    }

    /// Bytes of the arena that a run needs.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Bytes of scratch memory that each thread but the first needs, a multiple of 64.
    pub fn thread_bytes(&self) -> usize {
        self.thread_bytes
    }

    /// Whether the code of a level calls products of `arrayjit-rt`.
    pub fn calls_products(&self) -> bool {
        let mut kernels = self.code.iter().flat_map(|(_, kernels)| kernels);
        kernels.any(|kernel| !kernel.products.is_empty())
    }
}

impl Library {
    /// A library without routines for all levels of a system, given by its target triple.
    ///
    /// # Errors
    ///
    /// [`AotError::Target`] and [`AotError::Name`].
    pub fn new(name: &str, triple: &str) -> Result<Library, AotError> {
        Library::with_levels(name, triple, &ObjectLevel::of(triple)?)
    }

    /// [`Library::new`] for some levels, in any order.
    ///
    /// # Errors
    ///
    /// [`AotError::NoLevel`], and the errors of [`Library::new`].
    pub fn with_levels(name: &str, triple: &str, levels: &[ObjectLevel]) -> Result<Library, AotError> {
        if !signature::is_name(name) {
            return Err(AotError::Name { what: "library", name: name.to_owned() });
        }
        let mut levels = levels.to_vec();
        levels.sort_by(|a, b| b.cmp(a));
        levels.dedup();
        let target = |&level: &ObjectLevel| ObjectTarget::new(triple, level);
        let targets: Vec<ObjectTarget> = levels.iter().map(target).collect::<Result<_, _>>()?;
        if targets.is_empty() {
            return Err(AotError::NoLevel { library: name.to_owned() });
        }
        Ok(Library {
            name: name.to_owned(),
            triple: triple.to_owned(),
            targets,
            place: ConstantPlace::default(),
            constants: Constants::default(),
            routines: Vec::new(),
        })
    }

    /// The same library, without routines, with its constants elsewhere.
    #[must_use]
    pub fn with_constants_in(self, place: ConstantPlace) -> Library {
        Library { place, constants: Constants::default(), routines: Vec::new(), ..self }
    }

    /// The same library, without routines, whose large products and convolutions are as fast as in a process:
    /// they call the feature `products` of `arrayjit-rt`, which needs `std`. Without it, and at `x86-64-v2`,
    /// they are code of the object, which packs no operands.
    #[must_use]
    pub fn with_products(self) -> Library {
        let targets = self.targets.into_iter().map(ObjectTarget::with_products).collect();
        Library { targets, constants: Constants::default(), routines: Vec::new(), ..self }
    }

    /// The name of the library, of its files and in its symbols.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the code calls products of `arrayjit-rt`.
    pub fn calls_products(&self) -> bool {
        self.routines.iter().any(LibraryRoutine::calls_products)
    }

    /// The routines, in the order in which they were added.
    pub fn routines(&self) -> &[LibraryRoutine] {
        &self.routines
    }

    /// Compiles a text that declares all its nodes, and adds it as a routine. Each constant is the value of
    /// the node with its name, and ships with the library; the caller gives all other arrays.
    ///
    /// # Errors
    ///
    /// Fails like [`Library::add`].
    pub fn add_text(
        &mut self,
        name: &str,
        text: &str,
        constants: &[(&str, &HostArray)],
    ) -> Result<&LibraryRoutine, AotError> {
        let constants: Vec<(&str, Arc<HostArray>)> =
            constants.iter().map(|&(node, values)| (node, Arc::new(values.clone()))).collect();
        self.add(name, |backend| -> Result<CompiledProgram, Box<dyn Error + Send + Sync>> {
            let compiled = backend.compile(text, &Nodes::default())?;
            let constant = |(node, values): &(&str, Arc<HostArray>)| {
                Ok::<_, arrayjit::UnknownNode>((compiled.node(node)?.clone(), Arc::clone(values)))
            };
            let constants = constants.iter().map(constant).collect::<Result<_, _>>()?;
            Ok(CompiledProgram { constants, ..compiled.into() })
        })
    }

    /// Adds a routine. `compile` is called once for each level, and compiles the program with the backend
    /// that it gets; nodes learn where they live when they are compiled, so it makes them anew each time.
    ///
    /// # Errors
    ///
    /// [`AotError::Name`], [`AotError::Compile`] with the error of `compile`, [`AotError::Fallback`] and
    /// [`AotError::Entry`] for programs that need the runtime, [`AotError::Empty`] for those without results,
    /// [`AotError::Levels`], and errors of constants.
    /// The library is unchanged then.
    pub fn add<E: Into<Box<dyn Error + Send + Sync>>>(
        &mut self,
        name: &str,
        mut compile: impl FnMut(&Backend) -> Result<CompiledProgram, E>,
    ) -> Result<&LibraryRoutine, AotError> {
        // `f_arm64` would have the symbol of the entry of `f`.
        let is_entry = ObjectLevel::ALL.into_iter().any(|level| name.ends_with(&level_suffix(level)));
        let is_taken = self.routines.iter().any(|routine| routine.name == name);
        if !signature::is_name(name) || is_entry || is_taken {
            return Err(AotError::Name { what: "routine", name: name.to_owned() });
        }
        let mut routine: Option<LibraryRoutine> = None;
        for target in &self.targets {
            let level = target.level();
            let program = compile(&backend(target)?).map_err(|source| {
                let (routine, source) = (name.to_owned(), source.into());
                AotError::Compile { routine, level, source }
            })?;
            let compiler =
                RoutineCompiler { name, target, place: self.place, constants: &mut self.constants };
            let compiled = compiler.routine(&program)?;
            match &mut routine {
                None => routine = Some(compiled),
                Some(first) if first.takes_the_same(&compiled) => first.append(compiled),
                Some(_) => {
                    let first = self.targets[0].level();
                    return Err(AotError::Levels { routine: name.to_owned(), first, level });
                }
            }
        }
        self.routines.extend(routine);
        self.routines.last().ok_or_else(|| AotError::NoLevel { library: self.name.clone() })
    }

    /// The name of a routine's entry for a level: `signal_scale_x86_64_v3`.
    pub(crate) fn entry_name(&self, routine: &LibraryRoutine, target: &ObjectTarget) -> String {
        format!("{}_{}{}", self.name, routine.name, level_suffix(target.level()))
    }

    /// The bytes of the object file.
    ///
    /// # Errors
    ///
    /// [`AotError::Object`] if the file would be too large for its format.
    pub fn object(&self) -> Result<Vec<u8>, AotError> {
        let constants = match self.place {
            ConstantPlace::Object => &*self.constants.bytes,
            ConstantPlace::File => &[],
        };
        let write = || {
            let mut file = ObjectFile::new(&self.targets[0], &self.name, constants);
            for routine in &self.routines {
                for (target, (entry, kernels)) in self.targets.iter().zip(&routine.code) {
                    file.add(&self.entry_name(routine, target), entry, kernels)?;
                }
            }
            file.write()
        };
        write().map_err(|source| AotError::Object { library: self.name.clone(), source })
    }

    /// The bytes of the file of constants; empty if there are none, or if the object file has them.
    pub fn constants(&self) -> &[u8] {
        match self.place {
            ConstantPlace::Object => &[],
            ConstantPlace::File => &self.constants.bytes,
        }
    }

    /// The Rust module, to be included with `include!`: a type with a method for each routine.
    pub fn rust_module(&self) -> String {
        rust_module::write(self)
    }

    /// The C header: a function for each routine.
    pub fn c_header(&self) -> String {
        c_header::write(self)
    }

    /// The most bytes of an arena that any routine needs.
    pub fn arena_bytes(&self) -> usize {
        self.routines.iter().map(|routine| routine.arena_bytes).max().unwrap_or(0)
    }

    /// The most bytes of scratch memory that any routine needs for each thread but the first.
    pub fn thread_bytes(&self) -> usize {
        self.routines.iter().map(|routine| routine.thread_bytes).max().unwrap_or(0)
    }

    /// Writes the files of the library into a folder, under its name. If one cannot be written, none is
    /// there.
    ///
    /// # Errors
    ///
    /// [`AotError::Object`] and [`AotError::Write`].
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<LibraryFiles, AotError> {
        let folder = folder.as_ref();
        let extension = if self.targets[0].format() == ObjectFormat::Coff { "obj" } else { "o" };
        let constants = self.constants();
        let path = |extension: &str| folder.join(format!("{}.{extension}", self.name));
        let files = LibraryFiles {
            object: path(extension),
            rust_module: path("rs"),
            c_header: path("h"),
            constants: (self.place == ConstantPlace::File).then(|| path("constants")),
        };
        let (object, module, header) = (self.object()?, self.rust_module(), self.c_header());
        let mut contents = vec![
            (&files.object, &*object),
            (&files.rust_module, module.as_bytes()),
            (&files.c_header, header.as_bytes()),
        ];
        contents.extend(files.constants.iter().map(|path| (path, constants)));
        write_all(&contents)?;
        Ok(files)
    }
}

/// The name of a node by its label alone. Other names have the number of the node if the label is that of
/// another node too or has no ASCII letter, and each level makes nodes with other numbers.
fn label(node: &TensorNode) -> String {
    match node.label().split_first() {
        Some((first, value)) if first == "grad" => value.join("_") + ".grad",
        _ => node.label().join("_"),
    }
}

/// The end of the names of entries for a level: `_x86_64_v3`.
fn level_suffix(level: ObjectLevel) -> String {
    format!("_{}", level.to_string().replace('-', "_"))
}

/// Writes files, which get their names when all of them are on disk.
fn write_all(contents: &[(&PathBuf, &[u8])]) -> Result<(), AotError> {
    let failed = |path: &Path, source| AotError::Write { path: path.to_owned(), source };
    let mut files = Vec::new();
    for (path, content) in contents {
        if path.is_dir() {
            return Err(failed(path, io::ErrorKind::IsADirectory.into()));
        }
        let mut file = PartialFile::create(path).map_err(|error| failed(path, error))?;
        file.file().write_all(content).map_err(|error| failed(path, error))?;
        files.push((path, file));
    }
    files.into_iter().try_for_each(|(path, file)| file.finish().map_err(|error| failed(path, error)))
}

impl LibraryRoutine {
    /// Whether callers give the same to both.
    fn takes_the_same(&self, other: &LibraryRoutine) -> bool {
        let parameters = |routine: &LibraryRoutine| {
            let ranges = routine.parameters().iter().map(|symbol| (symbol.name.clone(), symbol.interval()));
            ranges.collect::<Vec<_>>()
        };
        let arrays = |routine: &LibraryRoutine| {
            routine
                .arrays
                .iter()
                .map(|array| ArrayParameter { position: 0, ..array.clone() })
                .collect::<Vec<_>>()
        };
        arrays(self) == arrays(other) && parameters(self) == parameters(other)
    }

    /// Adds the code of another level.
    fn append(&mut self, level: LibraryRoutine) {
        self.arena_bytes = self.arena_bytes.max(level.arena_bytes);
        self.thread_bytes = self.thread_bytes.max(level.thread_bytes);
        // Levels may cut loops into other strips. Only the names of the longest list are kept, for errors.
        if level.symbols.len() > self.symbols.len() {
            (self.symbols, self.symbol_names) = (level.symbols, level.symbol_names);
        }
        self.code.extend(level.code);
    }
}

/// The backend that compiles for a target.
fn backend(target: &ObjectTarget) -> Result<Backend, AotError> {
    let codegen = object::object_codegen(target.clone()).map_err(|source| AotError::Codegen { source })?;
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    Backend::from_parts("aot", BackendParts::new(Arc::new(codegen), device), &Settings::default())
        .map_err(|error| AotError::Open(Box::new(error)))
}

/// Makes the routine of a program for one level.
struct RoutineCompiler<'l> {
    name: &'l str,
    target: &'l ObjectTarget,
    place: ConstantPlace,
    constants: &'l mut Constants,
}

/// Where the nodes of a routine are.
struct NodePlaces {
    /// The arrays that the caller gives.
    arrays: Vec<ArrayParameter>,
    /// The place of each node of the schedule that a call mentions.
    places: Vec<Option<NodePlace>>,
    /// Bytes of the arena, with the nodes in it.
    arena_bytes: usize,
}

impl RoutineCompiler<'_> {
    fn routine(self, program: &CompiledProgram) -> Result<LibraryRoutine, AotError> {
        let CompiledProgram { compiled, .. } = program;
        let routine = || self.name.to_owned();
        if !compiled.fallbacks().is_empty() {
            let statements: Vec<String> = compiled.fallbacks().iter().map(ToString::to_string).collect();
            return Err(AotError::Fallback { routine: routine(), statements: statements.join("; ") });
        }
        let entry_error = |source| AotError::Entry { routine: routine(), source: Box::new(source) };
        let code = compiled.codes().next().ok_or_else(|| entry_error(object::EntryError::NoObject))?;
        let Payload::Other(payload) = code.artifact().payload() else {
            return Err(entry_error(object::EntryError::NoObject));
        };
        let module = payload.downcast_ref::<ObjectModule>();
        let kernels = module.ok_or_else(|| entry_error(object::EntryError::NoObject))?.kernels.clone();
        let mut symbols = code.schedule().symbols().to_vec();
        let (name, target) = (self.name.to_owned(), self.target);
        let NodePlaces { arrays, places, arena_bytes } = self.places(program, code)?;
        if arrays.iter().all(|array| !array.is_written) {
            return Err(AotError::Empty { routine: name });
        }
        let entry = object::entry(target, code, &places);
        let entry =
            entry.map_err(|source| AotError::Entry { routine: name.clone(), source: Box::new(source) })?;
        for symbol in &mut symbols {
            if let Some((_, name)) = program.sizes.iter().find(|(size, _)| *size == *symbol.name) {
                symbol.name.clone_from(name);
            }
        }
        let symbol_names = signature::symbol_names(&symbols, &arrays);
        let (thread_bytes, code) = (object::thread_bytes(code), vec![(entry, kernels)]);
        Ok(LibraryRoutine { name, arrays, symbols, symbol_names, arena_bytes, thread_bytes, code })
    }

    fn places(self, program: &CompiledProgram, code: &Code) -> Result<NodePlaces, AotError> {
        let named = |position: usize| {
            let node = program.compiled.nodes().get(position)?;
            program.names.iter().position(|(named, _)| named == node)
        };
        let all = signature::arrays(code, |position| match named(position) {
            Some(rank) => (rank, program.names[rank].1.clone()),
            None => (usize::MAX, program.compiled.nodes().get(position).map(label).unwrap_or_default()),
        });
        self.check_constants(program, &all)?;
        let mut places = vec![None; code.schedule().nodes().len()];
        let mut arrays = Vec::new();
        let mut arena_bytes = object::arena_bytes(code);
        // A graph has no use for a result that is none of its outputs, such as the counts of the last pass of
        // a selection.
        let is_unused = |array: &ArrayParameter| {
            !program.names.is_empty() && array.is_written && named(array.position).is_none()
        };
        // The address of the file of constants is the first argument.
        let before = usize::from(self.place == ConstantPlace::File);
        for array in all {
            let node = program.compiled.nodes().get(array.position);
            let constant = program.constants.iter().find(|(constant, _)| Some(constant) == node);
            let place = match constant {
                None if is_unused(&array) => {
                    let offset = arena_bytes.next_multiple_of(BASE_ALIGNMENT);
                    arena_bytes = offset + array.len() * array.dtype.size_bytes();
                    NodePlace::Arena(offset)
                }
                None => {
                    arrays.push(array.clone());
                    NodePlace::Argument { position: before + arrays.len() - 1, offset: 0 }
                }
                Some((_, values)) => {
                    self.check_values(&array, values)?;
                    let offset = self.constants.add(values.bytes());
                    match self.place {
                        ConstantPlace::Object => NodePlace::Data(offset),
                        ConstantPlace::File => NodePlace::Argument { position: 0, offset },
                    }
                }
            };
            places[array.position] = Some(place);
        }
        Ok(NodePlaces { arrays, places, arena_bytes })
    }

    /// Checks that the program has each node for which a constant is given.
    fn check_constants(&self, program: &CompiledProgram, all: &[ArrayParameter]) -> Result<(), AotError> {
        for (node, _) in &program.constants {
            if !program.compiled.nodes().contains(node) {
                let read: Vec<String> = all.iter().map(|array| format!("`{}`", array.node)).collect();
                let (routine, node) = (self.name.to_owned(), node.name());
                return Err(AotError::NoNode { routine, node, known: read.join(", ") });
            }
        }
        Ok(())
    }

    fn check_values(&self, array: &ArrayParameter, values: &HostArray) -> Result<(), AotError> {
        let (routine, node) = (self.name.to_owned(), array.node.clone());
        if array.is_written {
            return Err(AotError::Written { routine, node });
        }
        if values.dtype() != array.dtype || values.dims()[..] != array.dims[..] {
            let (expected, found) = (array.shape(), signature::shape(values.dtype(), values.dims()));
            return Err(AotError::Constant { routine, node, expected, found });
        }
        Ok(())
    }
}
