! A rank that ends itself: by a SIGKILL, or with an exit code where DIE_BY=exit.
module mpi_die
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: die
  interface
    integer(c_int) function c_raise(signal) bind(c, name="raise")
      import :: c_int
      integer(c_int), value :: signal
    end function
    subroutine c_exit(code) bind(c, name="_exit")
      import :: c_int
      integer(c_int), value :: code
    end subroutine
  end interface

contains
  subroutine die()
    character(len=16) :: by
    integer(c_int) :: error
    call get_environment_variable('DIE_BY', by)
    if (by /= 'exit') error = c_raise(9_c_int)
    call c_exit(9_c_int)
  end subroutine
end module
