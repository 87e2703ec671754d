! ULFM's constants and calls for Fortran programs under ucft's shim: the same as mpi-ext.h, with an error code at the
! end. Include it behind "include 'mpif.h'", or behind "use mpi" and "implicit none". Handles are INTEGER.
      integer MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING
      integer MPIX_ERR_REVOKED
! Of Open MPI 4 behind its last code. MPICH, whose last code is great, has classes of its own.
      integer ucft_last
      parameter (ucft_last=merge(100,MPI_ERR_LASTCODE,                         &
     & MPI_ERR_LASTCODE.gt.1000000))
      parameter (MPIX_ERR_PROC_FAILED=ucft_last+1)
      parameter (MPIX_ERR_PROC_FAILED_PENDING=ucft_last+2)
      parameter (MPIX_ERR_REVOKED=ucft_last+3)
      external MPIX_Comm_revoke, MPIX_Comm_is_revoked
      external MPIX_Comm_get_failed, MPIX_Comm_ack_failed
      external MPIX_Comm_failure_ack, MPIX_Comm_failure_get_acked
      external MPIX_Comm_agree, MPIX_Comm_iagree
      external MPIX_Comm_shrink
