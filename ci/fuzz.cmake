# Fuzzing with coverage, of the preset `fuzz`: fuzz_NAME.c becomes the program fuzz_NAME, with its corpus in corpus/NAME
# beside it.  tb_fuzz_target(SOURCE [MORE SOURCES])
add_custom_target(fuzz)
function(tb_fuzz_target source)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source} ${ARGN})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz ${name})
endfunction()
